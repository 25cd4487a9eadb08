// SPDX-License-Identifier: Apache-2.0
// The buffer objects that programs have by number.
#pragma once

#include "xrt/xrt_bo.h"

namespace opendpu {

// The object that xclAllocBO gave this number; throws std::runtime_error where there is none.
xrt::bo numbered_bo(unsigned int number);

}  // namespace opendpu
