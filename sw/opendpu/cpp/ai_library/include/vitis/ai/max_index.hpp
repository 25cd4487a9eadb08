// SPDX-License-Identifier: Apache-2.0
// Where the largest value of each pixel is.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace vitis {
namespace ai {

// Of width x height pixels with their channels one after the other: the channel of the largest
// element, the first of several.
inline void max_index_void(std::int8_t* feature_map, int width, int height, int channel,
                           std::uint8_t* results) {
  for (int i = 0; i < width * height; ++i, feature_map += channel) {
    results[i] = static_cast<std::uint8_t>(
        std::max_element(feature_map, feature_map + channel) - feature_map);
  }
}

inline std::vector<std::uint8_t> max_index(std::int8_t* feature_map, int width, int height,
                                           int channel) {
  std::vector<std::uint8_t> results(static_cast<std::size_t>(width) * height);
  max_index_void(feature_map, width, height, channel, results.data());
  return results;
}

}  // namespace ai
}  // namespace vitis
