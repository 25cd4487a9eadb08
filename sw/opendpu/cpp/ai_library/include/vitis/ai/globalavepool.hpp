// SPDX-License-Identifier: Apache-2.0
// Averages over whole feature maps, on the CPU.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace vitis {
namespace ai {

// Averages each channel of height x width x channel values, times num, to the nearest, at most 127.
inline void globalAvePool(const std::int8_t* src, int channel, int width, int height,
                          std::int8_t* dst, int num = 1) {
  const int cells = width * height;
  for (int c = 0; c < channel; ++c) {
    float sum = 0;
    for (int i = 0; i < cells; ++i) sum += src[i * channel + c];
    const auto mean = std::round(sum / static_cast<float>(cells) * static_cast<float>(num));
    dst[c] = static_cast<std::int8_t>(std::min(mean, 127.f));
  }
}

}  // namespace ai
}  // namespace vitis
