// SPDX-License-Identifier: Apache-2.0
// Objects out of the outputs of CenterPoint.
#pragma once

#include <cstddef>
#include <vector>

#include "vitis/ai/library/tensor.hpp"
#include "vitis/ai/proto/dpu_model_param.pb.h"

namespace vitis {
namespace ai {

struct CenterPointResult {
  // x, y, z of the bottom's centre in metres, sizes along x, y and z, angle around z.
  std::vector<float> bbox;
  float score;
  int label;
};

// By falling score, 83 at most. The first network's outputs have reg, height, dim, rot and heatmap in
// their names; they cover 80 m ahead, and 40 m to each side. Throws std::runtime_error where one is
// missing or has another number of channels.
std::vector<CenterPointResult> post_process(
    std::vector<std::vector<library::OutputTensor>> out_tensor, std::size_t batch_ind);

}  // namespace ai
}  // namespace vitis
