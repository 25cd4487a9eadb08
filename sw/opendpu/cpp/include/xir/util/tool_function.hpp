// SPDX-License-Identifier: Apache-2.0
// Names as VART's files have them.
#pragma once

#include <string>

namespace xir {

// The name without its parts in parentheses.
std::string remove_xfix(const std::string& name);

}  // namespace xir
