// SPDX-License-Identifier: Apache-2.0
// XRT's kernels: what an FPGA has beside the DPU. The simulated device has none, so that programs
// that only include this header compile, and those that want a kernel are told so.
#pragma once

#include <stdexcept>
#include <string>

#include "xrt/xrt_device.h"
#include "xrt/xrt_uuid.h"

namespace xrt {

class kernel {
 public:
  enum class cu_access_mode { exclusive, shared, none };

  kernel() = default;
  // Throws std::runtime_error.
  kernel(const device&, const uuid&, const std::string& name,
         cu_access_mode = cu_access_mode::shared) {
    throw std::runtime_error("there is no kernel " + name +
                             ": beside the DPU, which VART runs, the simulated device has none");
  }
  explicit operator bool() const { return false; }
};

}  // namespace xrt
