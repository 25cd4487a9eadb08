// SPDX-License-Identifier: Apache-2.0
// Pairs of rows and columns that cost least together.
#pragma once

#include <vector>

namespace opendpu {
namespace tasks {

// The column of each row, or -1: as many pairs as there are rows or columns, whichever are fewer,
// with the least sum of costs. Rows must be of one length; costs must be finite.
std::vector<int> assigned(const std::vector<std::vector<double>>& costs);

}  // namespace tasks
}  // namespace opendpu
