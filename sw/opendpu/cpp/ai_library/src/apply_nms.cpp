// SPDX-License-Identifier: Apache-2.0
// Non-maximum suppression.
#include "vitis/ai/nnpp/apply_nms.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace vitis {
namespace ai {
namespace {

struct Span {
  float low, high;
};

Span span(float centre, float size) { return {centre - size / 2, centre + size / 2}; }

float common(Span a, Span b) { return std::min(a.high, b.high) - std::max(a.low, b.low); }

float enclosing(Span a, Span b) { return std::max(a.high, b.high) - std::min(a.low, b.low); }

float overlap(const std::vector<float>& a, const std::vector<float>& b, int iou_type) {
  const Span ax = span(a[0], a[2]), ay = span(a[1], a[3]);
  const Span bx = span(b[0], b[2]), by = span(b[1], b[3]);
  const float width = common(ax, bx), height = common(ay, by);
  const float shared = width > 0 && height > 0 ? width * height : 0;
  const float all = a[2] * a[3] + b[2] * b[3] - shared;
  const float iou = all > 0 ? shared / all : 0;
  if (iou_type == 0) return iou;
  const float cx = enclosing(ax, bx), cy = enclosing(ay, by);
  const float diagonal = cx * cx + cy * cy;
  if (diagonal == 0) return iou;
  const float dx = a[0] - b[0], dy = a[1] - b[1];
  return iou - std::pow((dx * dx + dy * dy) / diagonal, 0.6f);
}

}  // namespace

void applyNMS(const std::vector<std::vector<float>>& boxes, const std::vector<float>& scores,
              const float nms, const float conf, std::vector<std::size_t>& res, bool,
              int iou_type) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    if (scores[i] >= conf) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return scores[a] > scores[b]; });
  std::vector<bool> gone(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (gone[i]) continue;
    res.push_back(order[i]);
    for (std::size_t j = i + 1; j < order.size(); ++j) {
      if (!gone[j] && overlap(boxes[order[i]], boxes[order[j]], iou_type) >= nms) gone[j] = true;
    }
  }
}

}  // namespace ai
}  // namespace vitis
