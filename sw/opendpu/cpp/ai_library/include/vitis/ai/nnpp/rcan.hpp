// SPDX-License-Identifier: Apache-2.0
// A picture out of the output of a network for super resolution.
#pragma once

#include <opencv2/core.hpp>
#include <vector>

#include "vitis/ai/library/tensor.hpp"
#include "vitis/ai/proto/dpu_model_param.pb.h"

namespace vitis {
namespace ai {

struct RcanResult {
  // Of the network's input.
  int width;
  int height;
  cv::Mat feat;  // of the output's size; blue, green, red
};

// rcan_param says by what outputs are multiplied.
std::vector<RcanResult> rcan_post_process(
    const std::vector<std::vector<library::InputTensor>>& input_tensors,
    const std::vector<std::vector<library::OutputTensor>>& output_tensors,
    const proto::DpuModelParam& config);

}  // namespace ai
}  // namespace vitis
