// SPDX-License-Identifier: Apache-2.0
// SSD's prior boxes.
#include "prior_boxes.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <utility>

namespace opendpu {
namespace tasks {
namespace {

using vitis::ai::proto::PriorBoxParam;

// Far beyond any network; memory for more is not asked for.
constexpr double kMostPriors = 1 << 22;

using Sizes = std::vector<std::pair<float, float>>;

// Sizes in pixels of the input.
Sizes shapes(const PriorBoxParam& param, const PriorRules& rules, float width) {
  Sizes made;
  for (int i = 0; i < param.min_sizes_size(); ++i) {
    const float smallest = param.min_sizes(i);
    Sizes squares = {{smallest, smallest}};
    if (i < param.max_sizes_size()) {
      const float between = std::sqrt(smallest * param.max_sizes(i));
      squares.insert(rules.is_tf ? squares.begin() : squares.end(), {between, between});
    }
    made.insert(made.end(), squares.begin(), squares.end());
    Sizes flipped;
    for (const float ratio : param.aspect_ratios()) {
      const float root = std::sqrt(ratio);
      const float wide = smallest * root;
      const std::pair<float, float> size{rules.capped ? std::min(wide, width) : wide,
                                         smallest / root};
      made.push_back(size);
      if (param.flip()) (rules.is_tf ? flipped : made).emplace_back(size.second, size.first);
    }
    made.insert(made.end(), flipped.begin(), flipped.end());
  }
  return made;
}

float within(float value, bool clip) { return clip ? std::clamp(value, 0.f, 1.f) : value; }

void add_map(const PriorBoxParam& param, const PriorRules& rules, int width, int height,
             std::vector<Prior>& made) {
  if (param.variances_size() != 4 && param.variances_size() != 1) {
    throw std::runtime_error("a prior box has " + std::to_string(param.variances_size()) +
                             " variances, but must have one or four");
  }
  if (param.layer_width() < 1 || param.layer_height() < 1) {
    throw std::runtime_error("layer_width and layer_height of a prior box must be at least 1");
  }
  std::array<float, 4> variances{};
  for (int i = 0; i < 4; ++i) variances[i] = param.variances(param.variances_size() == 4 ? i : 0);
  const float step_x = param.step_width() > 0 ? param.step_width()
                                              : static_cast<float>(width) / param.layer_width();
  const float step_y = param.step_height() > 0 ? param.step_height()
                                               : static_cast<float>(height) / param.layer_height();
  const auto sizes = shapes(param, rules, static_cast<float>(width));
  check_number(made.size(), static_cast<double>(param.layer_height()) * param.layer_width() *
                                static_cast<double>(sizes.size()));
  for (int row = 0; row < param.layer_height(); ++row) {
    for (int column = 0; column < param.layer_width(); ++column) {
      const float x = (column + param.offset()) * step_x / width;
      const float y = (row + param.offset()) * step_y / height;
      for (const auto& [w, h] : sizes) {
        const float left = within(x - w / width / 2, param.clip());
        const float right = within(x + w / width / 2, param.clip());
        const float top = within(y - h / height / 2, param.clip());
        const float bottom = within(y + h / height / 2, param.clip());
        made.push_back({(left + right) / 2, (top + bottom) / 2, right - left, bottom - top,
                        variances});
      }
    }
  }
}

}  // namespace

void check_number(std::size_t made, double further) {
  if (static_cast<double>(made) + further <= kMostPriors) return;
  throw std::runtime_error("the configuration asks for more than " +
                           std::to_string(static_cast<long>(kMostPriors)) + " prior boxes");
}

std::vector<Prior> prior_boxes(const google::protobuf::RepeatedPtrField<PriorBoxParam>& maps,
                               const PriorRules& rules, int width, int height) {
  std::vector<Prior> made;
  for (const auto& map : maps) add_map(map, rules, width, height, made);
  return made;
}

}  // namespace tasks
}  // namespace opendpu
