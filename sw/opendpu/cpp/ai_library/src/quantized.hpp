// SPDX-License-Identifier: Apache-2.0
// Normalized pixels as elements of inputs.
#pragma once

#include <cstdint>

namespace opendpu {
namespace tasks {

// Toward zero and wrapping, as the library does it, or to the nearest and clamped where the
// environment says XLNX_ENABLE_ROUND_SETINPUT=1, or the program by GLOBAL_ENABLE_ROUND_SETINPUT.
std::int8_t quantized(float value);

}  // namespace tasks
}  // namespace opendpu
