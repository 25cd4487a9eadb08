// SPDX-License-Identifier: Apache-2.0
// Joints of a person, out of a network's outputs.
#pragma once

#include <opencv2/core.hpp>
#include <vector>

#include "vitis/ai/library/tensor.hpp"

namespace vitis {
namespace ai {

struct PoseDetectResult {
  using Point = cv::Point2f;
  // As shares of the image's width and height; right and left are the person's.
  struct Pose14Pt {
    Point right_shoulder;
    Point right_elbow;
    Point right_wrist;
    Point left_shoulder;
    Point left_elbow;
    Point left_wrist;
    Point right_hip;
    Point right_knee;
    Point right_ankle;
    Point left_hip;
    Point left_knee;
    Point left_ankle;
    Point head;
    Point neck;
  };
  // Of the network's input.
  int width;
  int height;
  Pose14Pt pose14pt;
};

// The last subgraph's first output: x and y of each joint, in pixels of an image of `size`.
std::vector<PoseDetectResult> pose_detect_post_process(
    const std::vector<std::vector<library::InputTensor>>& input_tensors,
    const std::vector<std::vector<library::OutputTensor>>& output_tensors, cv::Size size);

}  // namespace ai
}  // namespace vitis
