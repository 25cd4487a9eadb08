// SPDX-License-Identifier: Apache-2.0
// What SSD and its relatives find: prior boxes with their codes, classes that are sure enough.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "prior_boxes.hpp"

namespace opendpu {
namespace tasks {

// Centre x, centre y, width and height, as shares of the input's size.
using Box = std::vector<float>;

// A prior box with its code of four values: x, y, width, height; TensorFlow's is y, x, height,
// width.
Box decoded(const float* code, const Prior& prior, bool is_tf = false);
// What of a box is within the input.
Box clipped(const Box& box);

struct DetectionLimits {
  int classes = 0;                // with the background, if there is one
  std::vector<float> thresholds;  // of each class; of classes that have none the least
  float nms = 0;
  int top_k = 0, keep_top_k = 0;  // at most so many of a class before, and of all after; 0: any
  int first = 1;                  // class 0 is the background, which is never found; 0: there is none
};

template <typename Param>
DetectionLimits limits_of(const Param& param) {
  return {param.num_classes(), {param.conf_threshold().begin(), param.conf_threshold().end()},
          param.nms_threshold(), param.top_k(), param.keep_top_k(), 1};
}

struct Detection {
  int label;
  float score;
  std::size_t prior;
};

// Non-maximum suppression in each class; by falling score. `scores` are those of all classes of a
// box, box by box.
std::vector<Detection> detections(const std::vector<float>& scores, const std::vector<Box>& boxes,
                                  const DetectionLimits& limits);

// Throws std::runtime_error where outputs do not have `code` values and a score of each class for
// every prior box.
void check_sizes(std::size_t priors, int classes, std::size_t code, std::size_t places,
                 std::size_t scores);

}  // namespace tasks
}  // namespace opendpu
