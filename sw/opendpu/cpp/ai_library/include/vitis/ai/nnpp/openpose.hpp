// SPDX-License-Identifier: Apache-2.0
// Persons out of the outputs of OpenPose.
#pragma once

#include <opencv2/core.hpp>
#include <vector>

#include "vitis/ai/library/tensor.hpp"
#include "vitis/ai/proto/dpu_model_param.pb.h"

namespace vitis {
namespace ai {

struct OpenPoseResult {
  // Of the network's input.
  int width;
  int height;
  struct PosePoint {
    int type = 0;       // 1: found, 3: not found
    cv::Point2f point;  // in pixels of the image
  };
  // Of each person head, neck; shoulder, elbow and wrist of both sides; hip, knee and ankle of both
  // sides. The first element stands for nobody, and has points of type 0.
  std::vector<std::vector<PosePoint>> poses;
};

// open_pose_param names the output of limbs' directions, and that of joints. `ws` and `hs` are the
// images' sizes, one a sample.
std::vector<OpenPoseResult> open_pose_post_process(
    const std::vector<library::InputTensor>& input_tensors,
    const std::vector<library::OutputTensor>& output_tensors, const proto::DpuModelParam& config,
    const std::vector<int>& ws, const std::vector<int>& hs);

}  // namespace ai
}  // namespace vitis
