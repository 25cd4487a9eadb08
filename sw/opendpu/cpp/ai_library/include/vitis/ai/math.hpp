// SPDX-License-Identifier: Apache-2.0
// What programs compute of a task's outputs.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

namespace vitis {
namespace ai {

namespace detail {
template <typename T>
void softmax(const T* input, float scale, unsigned int cls, unsigned int group, float* output) {
  for (std::size_t i = 0; i < group; ++i, input += cls, output += cls) {
    float sum = 0;
    for (unsigned int c = 0; c < cls; ++c) sum += output[c] = std::exp(input[c] * scale);
    for (unsigned int c = 0; c < cls; ++c) output[c] /= sum;
  }
}
}  // namespace detail

// exp(x * scale) / sum in each of `group` rows of `cls` values.
inline void softmax(const std::int8_t* input, float scale, unsigned int cls, unsigned int group,
                    float* output) {
  detail::softmax(input, scale, cls, group, output);
}
inline void softmax(const float* input, float scale, unsigned int cls, unsigned int group,
                    float* output) {
  detail::softmax(input, scale, cls, group, output);
}

// A cell's channels, which are tile_dim rows of tile_dim columns of `ch` each, in the order
// (channel, row, column), become rows, columns, channels: height x width cells stay where they are.
inline void tiling(const std::int8_t* input, unsigned int width, unsigned int height,
                   unsigned int tile_dim, unsigned int ch, std::int8_t* output) {
  const std::size_t tile = static_cast<std::size_t>(tile_dim) * tile_dim;
  for (std::size_t cell = 0; cell < static_cast<std::size_t>(width) * height; ++cell) {
    const auto* from = input + cell * tile * ch;
    auto* to = output + cell * tile * ch;
    for (std::size_t place = 0; place < tile; ++place) {
      for (std::size_t c = 0; c < ch; ++c) to[place * ch + c] = from[c * tile + place];
    }
  }
}

}  // namespace ai
}  // namespace vitis
