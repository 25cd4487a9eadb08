// SPDX-License-Identifier: Apache-2.0
// Boxes in pixels, with one class each, of YOLOs without anchors.
#pragma once

#include <vector>

#include "outputs.hpp"

namespace opendpu {
namespace tasks {

// Centre x, centre y, width and height in pixels of the input.
struct PixelBox {
  int label;
  float score;
  std::vector<float> place;
};

// From the middle of a cell to the left, the top, the right and the bottom, in strides.
std::vector<float> around(float x, float y, const float (&distances)[4], float stride);

// The value whose sigmoid is a threshold. Of an output of 8 bits it is a whole number of its steps,
// toward zero, as in the library.
float logit_of(const OutputTensor& tensor, float threshold);

// By falling score, at most `number`; any number where it is 0.
void keep_surest(std::vector<PixelBox>& boxes, int number);

// What non-maximum suppression in each class leaves, class by class; places are compared as they are.
std::vector<PixelBox> suppressed(const std::vector<PixelBox>& boxes, int classes,
                                 float nms_threshold, float conf_threshold);

// Left, top, right and bottom in the program's image, which is `scale` times as large in the input,
// `left` and `top` pixels from its corner.
std::vector<float> in_image(const std::vector<float>& place, float scale, int left, int top);

// A result with such places, as YOLOv6 and YOLOv8 have it.
template <typename Result>
Result result_of(const std::vector<PixelBox>& boxes, float scale, int left, int top) {
  Result result;
  for (const auto& [label, score, place] : boxes) {
    result.bboxes.push_back({label, score, in_image(place, scale, left, top)});
  }
  return result;
}

}  // namespace tasks
}  // namespace opendpu
