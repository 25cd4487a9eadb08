// SPDX-License-Identifier: Apache-2.0
// Boxes out of the outputs of YOLOv8.
#pragma once

#include <vector>

#include "vitis/ai/library/tensor.hpp"
#include "vitis/ai/proto/dpu_model_param.pb.h"

namespace vitis {
namespace ai {

struct YOLOv8Result {
  struct BoundingBox {
    int label;
    float score;
    // Left, top, right and bottom in pixels of the image; may lie outside.
    std::vector<float> box;
  };
  std::vector<BoundingBox> bboxes;  // by falling score
};

// The parameters are those of yolo_v8_param. Of every sample, `scales` says how much larger the image
// in the input is than the program's, and the paddings how many pixels are left of and above it.
std::vector<YOLOv8Result> yolov8_post_process(
    const std::vector<library::InputTensor>& input_tensors,
    const std::vector<library::OutputTensor>& output_tensors, const proto::DpuModelParam& config,
    const std::vector<float>& scales, const std::vector<int>& left_padding,
    const std::vector<int>& top_padding);

}  // namespace ai
}  // namespace vitis
