// SPDX-License-Identifier: Apache-2.0
// Five points of a face out of the output of a landmark network.
#pragma once

#include <array>
#include <utility>
#include <vector>

#include "vitis/ai/library/tensor.hpp"
#include "vitis/ai/proto/dpu_model_param.pb.h"

namespace vitis {
namespace ai {

struct FaceLandmarkResult {
  // x and y, as shares of the image's width and height.
  std::array<std::pair<float, float>, 5> points;
};

// The first output of the first kernel has five x, then five y; a result a sample.
std::vector<FaceLandmarkResult> face_landmark_post_process(
    const std::vector<std::vector<library::InputTensor>>& input_tensors,
    const std::vector<std::vector<library::OutputTensor>>& output_tensors,
    const proto::DpuModelParam& config);

}  // namespace ai
}  // namespace vitis
