// SPDX-License-Identifier: Apache-2.0
// XRT's names of bitstreams; simulated devices have none, so all are zero.
#pragma once

#include <string>

namespace xrt {

class uuid {
 public:
  std::string to_string() const { return "00000000-0000-0000-0000-000000000000"; }
  explicit operator bool() const { return false; }
  bool operator==(const uuid&) const { return true; }
  bool operator!=(const uuid&) const { return false; }
};

}  // namespace xrt
