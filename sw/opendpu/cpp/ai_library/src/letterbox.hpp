// SPDX-License-Identifier: Apache-2.0
// Images fitted into a network's input with their proportions kept.
#pragma once

#include <cstdint>
#include <opencv2/core.hpp>
#include <vector>

namespace opendpu {
namespace tasks {

// The image in the middle of width x height; the rest has one value.
cv::Mat letterboxed(const cv::Mat& image, int width, int height, int fill);

// The same as Darknet does it, in floats: elements for an input whose values are pixels / 256 times
// `scale`; R, G, B. Beyond 127 they become 127.
std::vector<std::int8_t> darknet_letterboxed(const cv::Mat& image, int width, int height,
                                             float scale);

}  // namespace tasks
}  // namespace opendpu
