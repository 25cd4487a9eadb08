// SPDX-License-Identifier: Apache-2.0
// Names of classes.
#pragma once

#include <cstddef>
#include <string>

namespace opendpu {
namespace tasks {

// The number of the table that a label_type names, -1 where there is none.
int label_table(const std::string& label_type);
// The name of a class in a table, empty where there is none.
const char* label(int table, int index);

extern const char* const kImageNet[1000];

}  // namespace tasks
}  // namespace opendpu
