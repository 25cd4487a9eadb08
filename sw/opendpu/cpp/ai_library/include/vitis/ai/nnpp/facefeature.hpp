// SPDX-License-Identifier: Apache-2.0
// Features of a face, out of a network's outputs.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "vitis/ai/library/tensor.hpp"
#include "vitis/ai/proto/dpu_model_param.pb.h"

namespace vitis {
namespace ai {

struct FaceFeatureFloatResult {
  using vector_t = std::array<float, 512>;
  // Of the network's input.
  int width;
  int height;
  std::unique_ptr<vector_t> feature;
};

struct FaceFeatureFixedResult {
  using vector_t = std::array<std::int8_t, 512>;
  // Of the network's input.
  int width;
  int height;
  float scale;  // what elements are multiplied by to become real values
  std::unique_ptr<vector_t> feature;
};

// The first output's first 512 values; fixed ones need an output of 8 bits.
FaceFeatureFixedResult face_feature_post_process_fixed(
    const std::vector<std::vector<library::InputTensor>>& input_tensors,
    const std::vector<std::vector<library::OutputTensor>>& output_tensors,
    const proto::DpuModelParam& config, std::size_t batch_idx);
FaceFeatureFloatResult face_feature_post_process_float(
    const std::vector<std::vector<library::InputTensor>>& input_tensors,
    const std::vector<std::vector<library::OutputTensor>>& output_tensors,
    const proto::DpuModelParam& config, std::size_t batch_idx);

}  // namespace ai
}  // namespace vitis
