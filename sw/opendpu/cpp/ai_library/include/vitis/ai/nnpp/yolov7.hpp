// SPDX-License-Identifier: Apache-2.0
// Boxes out of the outputs of YOLOv7.
#pragma once

#include <vector>

#include "vitis/ai/library/tensor.hpp"
#include "vitis/ai/proto/dpu_model_param.pb.h"

namespace vitis {
namespace ai {

struct YOLOv7Result {
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

// The parameters are those of yolo_v7_param, with three anchors a map; w and h are the sizes of the
// images before they were fitted into the input, one pair a sample.
std::vector<YOLOv7Result> yolov7_post_process(
    const std::vector<library::InputTensor>& input_tensors,
    const std::vector<library::OutputTensor>& output_tensors, const proto::DpuModelParam& config,
    const std::vector<int>& w, const std::vector<int>& h);

}  // namespace ai
}  // namespace vitis
