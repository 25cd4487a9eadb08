// SPDX-License-Identifier: Apache-2.0
// Features of a person, out of a network's outputs.
#pragma once

#include <cstddef>
#include <opencv2/core.hpp>
#include <vector>

#include "vitis/ai/library/tensor.hpp"
#include "vitis/ai/proto/dpu_model_param.pb.h"

namespace vitis {
namespace ai {

struct ReidResult {
  // Of the network's input.
  int width;
  int height;
  cv::Mat feat;  // 1 x channels floats, of length 1
};

// The averages of the output's channels, normalized as reid_param's bn_means, bn_vars and bn_weights
// say where it has them, then to length 1.
ReidResult reid_post_process(const std::vector<std::vector<library::InputTensor>>& input_tensors,
                             const std::vector<std::vector<library::OutputTensor>>& output_tensors,
                             const proto::DpuModelParam& config, std::size_t batch_idx);
std::vector<ReidResult> reid_post_process(
    const std::vector<std::vector<library::InputTensor>>& input_tensors,
    const std::vector<std::vector<library::OutputTensor>>& output_tensors,
    const proto::DpuModelParam& config);

}  // namespace ai
}  // namespace vitis
