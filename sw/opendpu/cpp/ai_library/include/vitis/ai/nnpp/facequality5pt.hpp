// SPDX-License-Identifier: Apache-2.0
// Quality and points out of the outputs of a network for faces.
#pragma once

#include <array>
#include <utility>
#include <vector>

#include "vitis/ai/library/tensor.hpp"
#include "vitis/ai/proto/dpu_model_param.pb.h"

namespace vitis {
namespace ai {

struct FaceQuality5ptResult {
  // Of the network's input.
  int width;
  int height;
  float score;  // 0 to 1; the network's own value where face_quality5pt_param says original_quality
  // x and y of both eyes, the nose and both corners of the mouth, as shares of the input's size.
  std::array<std::pair<float, float>, 5> points;
};

std::vector<FaceQuality5ptResult> face_quality5pt_post_process(
    const std::vector<std::vector<library::InputTensor>>& input_tensors,
    const std::vector<std::vector<library::OutputTensor>>& output_tensors,
    const proto::DpuModelParam& config, bool day = true);

}  // namespace ai
}  // namespace vitis
