// SPDX-License-Identifier: Apache-2.0
// Boxes in pixels, with one class each, of YOLOs without anchors.
#include "pixel_boxes.hpp"

#include <algorithm>
#include <cmath>

#include "vitis/ai/nnpp/apply_nms.hpp"

namespace opendpu {
namespace tasks {

std::vector<float> around(float x, float y, const float (&distances)[4], float stride) {
  const float left = x - distances[0], top = y - distances[1];
  const float right = x + distances[2], bottom = y + distances[3];
  return {(left + right) / 2 * stride, (top + bottom) / 2 * stride, (right - left) * stride,
          (bottom - top) * stride};
}

float logit_of(const OutputTensor& tensor, float threshold) {
  const float value = -std::log(1 / threshold - 1);
  if (tensor.dtype == vitis::ai::library::DT_FLOAT) return value;
  const float scale = tensor_scale(tensor);
  return std::clamp(std::trunc(value / scale), -128.f, 127.f) * scale;
}

void keep_surest(std::vector<PixelBox>& boxes, int number) {
  std::stable_sort(boxes.begin(), boxes.end(),
                   [](const auto& a, const auto& b) { return a.score > b.score; });
  const auto limit = static_cast<std::size_t>(number);
  if (number > 0 && boxes.size() > limit) boxes.resize(limit);
}

std::vector<PixelBox> suppressed(const std::vector<PixelBox>& boxes, int classes,
                                 float nms_threshold, float conf_threshold) {
  std::vector<PixelBox> made;
  for (int label = 0; label < classes; ++label) {
    std::vector<std::vector<float>> places;
    std::vector<float> scores;
    for (const auto& box : boxes) {
      if (box.label != label) continue;
      places.push_back(box.place);
      scores.push_back(box.score);
    }
    std::vector<std::size_t> kept;
    vitis::ai::applyNMS(places, scores, nms_threshold, conf_threshold, kept, true);
    for (const auto i : kept) made.push_back({label, scores[i], places[i]});
  }
  return made;
}

std::vector<float> in_image(const std::vector<float>& place, float scale, int left, int top) {
  const float x = (place[0] - place[2] / 2 - static_cast<float>(left)) / scale;
  const float y = (place[1] - place[3] / 2 - static_cast<float>(top)) / scale;
  return {x, y, x + place[2] / scale, y + place[3] / scale};
}

}  // namespace tasks
}  // namespace opendpu
