// SPDX-License-Identifier: Apache-2.0
// Boxes out of the output of YOLOv2.
#pragma once

#include <vector>

#include "vitis/ai/library/tensor.hpp"
#include "vitis/ai/proto/dpu_model_param.pb.h"

namespace vitis {
namespace ai {

struct YOLOv2Result {
  struct BoundingBox {
    int label;
    float score;
    // The top left corner and the size, as shares of the image's width and height.
    float x;
    float y;
    float width;
    float height;
  };
  // Of the network's input.
  int width;
  int height;
  std::vector<BoundingBox> bboxes;
};

// The parameters are those of yolo_v3_param; a result a sample.
std::vector<YOLOv2Result> yolov2_post_process(
    const std::vector<library::InputTensor>& input_tensors,
    const std::vector<library::OutputTensor>& output_tensors, const proto::DpuModelParam& config);

}  // namespace ai
}  // namespace vitis
