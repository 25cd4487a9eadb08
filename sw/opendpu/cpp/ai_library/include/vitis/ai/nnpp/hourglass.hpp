// SPDX-License-Identifier: Apache-2.0
// Joints out of the output of a stacked hourglass network.
#pragma once

#include <opencv2/core.hpp>
#include <vector>

#include "vitis/ai/library/tensor.hpp"
#include "vitis/ai/proto/dpu_model_param.pb.h"

namespace vitis {
namespace ai {

struct HourglassResult {
  // Of the network's input.
  int width;
  int height;
  struct PosePoint {
    int type = 0;       // 1: found
    cv::Point2f point;  // in pixels of the image
  };
  // Sixteen, in MPII's order.
  std::vector<PosePoint> poses;
};

// `ws` and `hs` are the images' sizes, one a sample.
std::vector<HourglassResult> hourglass_post_process(
    const std::vector<library::InputTensor>& input_tensors,
    const std::vector<library::OutputTensor>& output_tensors, const proto::DpuModelParam& config,
    const std::vector<int>& ws, const std::vector<int>& hs);

}  // namespace ai
}  // namespace vitis
