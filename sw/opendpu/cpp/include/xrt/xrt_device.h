// SPDX-License-Identifier: Apache-2.0
// XRT's device, as far as programs with VART use it: there is a simulated DPU behind it, and memory
// of the host.
#pragma once

#include <stdexcept>
#include <string>

#include "xrt/xrt_uuid.h"

namespace xrt {

class device {
 public:
  device() = default;
  // Device 0 is the simulated one. Throws std::runtime_error for another number.
  explicit device(unsigned int index) : valid_(true) {
    if (index != 0) {
      throw std::runtime_error("there is no device " + std::to_string(index) + ", only device 0");
    }
  }

  // The simulated DPU needs no bitstream; none is read.
  uuid load_xclbin(const std::string&) const { return uuid(); }
  uuid get_xclbin_uuid() const { return uuid(); }
  explicit operator bool() const { return valid_; }

 private:
  bool valid_ = false;
};

}  // namespace xrt
