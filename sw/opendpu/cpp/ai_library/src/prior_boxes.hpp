// SPDX-License-Identifier: Apache-2.0
// SSD's prior boxes.
#pragma once

#include <array>
#include <vector>

#include "vitis/ai/proto/dpu_model_param.pb.h"

namespace opendpu {
namespace tasks {

// Centre x, y, width and height, as shares of the input's size, and their variances.
struct Prior {
  float x, y, width, height;
  std::array<float, 4> variances;
};

// The boxes of all maps: by map, row, column and shape. TensorFlow's order of shapes is another.
std::vector<Prior> prior_boxes(const vitis::ai::proto::SSDParam& param, bool is_tf, int width,
                               int height);

}  // namespace tasks
}  // namespace opendpu
