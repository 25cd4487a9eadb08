// SPDX-License-Identifier: Apache-2.0
// SSD's prior boxes.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "vitis/ai/proto/dpu_model_param.pb.h"

namespace opendpu {
namespace tasks {

// Centre x, y, width and height, as shares of the input's size, and their variances.
struct Prior {
  float x, y, width, height;
  std::array<float, 4> variances;
};

// Throws std::runtime_error where a configuration asks for more prior boxes than any network has.
void check_number(std::size_t made, double further);

// What SSD's relatives do otherwise: TensorFlow's order of shapes is another, and only SSD's wide
// boxes are at most as wide as the input.
struct PriorRules {
  bool is_tf = false;
  bool capped = true;
};

// The boxes of all maps: by map, row, column and shape.
std::vector<Prior> prior_boxes(
    const google::protobuf::RepeatedPtrField<vitis::ai::proto::PriorBoxParam>& maps,
    const PriorRules& rules, int width, int height);

}  // namespace tasks
}  // namespace opendpu
