// SPDX-License-Identifier: Apache-2.0
// What SSD and its relatives find: prior boxes with their codes, classes that are sure enough.
#include "detections.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "outputs.hpp"
#include "vitis/ai/nnpp/apply_nms.hpp"

namespace opendpu {
namespace tasks {
namespace {

float threshold(const DetectionLimits& limits, int label) {
  const auto& all = limits.thresholds;
  if (all.empty()) return 0;
  const auto index = static_cast<std::size_t>(label);
  return index < all.size() ? all[index] : *std::min_element(all.begin(), all.end());
}

template <typename List>
void shorten(List& list, int number) {
  const auto limit = static_cast<std::size_t>(number);
  if (number > 0 && list.size() > limit) list.resize(limit);
}

void add_class(int label, const std::vector<float>& scores, const std::vector<Box>& boxes,
               const DetectionLimits& limits, std::vector<Detection>& found) {
  std::vector<Detection> chosen;
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    const float score = scores[i * static_cast<std::size_t>(limits.classes) + label];
    if (score > threshold(limits, label)) chosen.push_back({label, score, i});
  }
  std::stable_sort(chosen.begin(), chosen.end(),
                   [](const auto& a, const auto& b) { return a.score > b.score; });
  shorten(chosen, limits.top_k);
  std::vector<Box> places;
  std::vector<float> theirs;
  for (const auto& one : chosen) {
    places.push_back(boxes[one.prior]);
    theirs.push_back(one.score);
  }
  std::vector<std::size_t> kept;
  vitis::ai::applyNMS(places, theirs, limits.nms, threshold(limits, label), kept);
  for (const auto i : kept) found.push_back(chosen[i]);
}

}  // namespace

Box decoded(const float* code, const Prior& prior, bool is_tf) {
  const auto& v = prior.variances;
  const float dx = code[is_tf ? 1 : 0], dy = code[is_tf ? 0 : 1];
  const float dw = code[is_tf ? 3 : 2], dh = code[is_tf ? 2 : 3];
  return {prior.x + v[0] * dx * prior.width, prior.y + v[1] * dy * prior.height,
          prior.width * std::exp(v[2] * dw), prior.height * std::exp(v[3] * dh)};
}

Box clipped(const Box& box) {
  const auto within = [](float value) { return std::clamp(value, 0.f, 1.f); };
  const float left = within(box[0] - box[2] / 2), right = within(box[0] + box[2] / 2);
  const float top = within(box[1] - box[3] / 2), bottom = within(box[1] + box[3] / 2);
  return {(left + right) / 2, (top + bottom) / 2, right - left, bottom - top};
}

std::vector<Detection> detections(const std::vector<float>& scores, const std::vector<Box>& boxes,
                                  const DetectionLimits& limits) {
  std::vector<Detection> found;
  for (int label = limits.first; label < limits.classes; ++label) {
    add_class(label, scores, boxes, limits, found);
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.score > b.score; });
  shorten(found, limits.keep_top_k);
  return found;
}

void check_sizes(std::size_t priors, int classes, std::size_t code, std::size_t places,
                 std::size_t scores) {
  check_classes(classes);
  if (places == code * priors && scores == static_cast<std::size_t>(classes) * priors) return;
  throw std::runtime_error("there are " + std::to_string(priors) + " prior boxes and " +
                           std::to_string(classes) + " classes, but outputs have " +
                           std::to_string(places) + " values of boxes and " +
                           std::to_string(scores) + " of classes");
}

}  // namespace tasks
}  // namespace opendpu
