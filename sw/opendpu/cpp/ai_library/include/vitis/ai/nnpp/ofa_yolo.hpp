// SPDX-License-Identifier: Apache-2.0
// Boxes out of the outputs of the YOLOv5 of once-for-all networks.
#pragma once

#include <vector>

#include "vitis/ai/library/tensor.hpp"
#include "vitis/ai/proto/dpu_model_param.pb.h"

namespace vitis {
namespace ai {

struct OFAYOLOResult {
  // Of the network's input.
  int width;
  int height;
  struct BoundingBox {
    int label;
    float score;
    // The top left corner and the size, as shares of the image's width and height; may lie outside.
    float x;
    float y;
    float width;
    float height;
  };
  // By falling score.
  std::vector<BoundingBox> bboxes;
};

// The parameters are those of yolo_v5_param, whose strides and biases are listed from fine to coarse
// maps, layer_name from coarse to fine. w and h are the size of the image that was fitted into the
// middle of the input.
OFAYOLOResult ofa_yolo_post_process(const std::vector<library::InputTensor>& input_tensors,
                                    const std::vector<library::OutputTensor>& output_tensors,
                                    const proto::DpuModelParam& config, const int w, const int h);
// A result a sample.
std::vector<OFAYOLOResult> ofa_yolo_post_process(
    const std::vector<library::InputTensor>& input_tensors,
    const std::vector<library::OutputTensor>& output_tensors, const proto::DpuModelParam& config,
    const std::vector<int>& w, const std::vector<int>& h);

}  // namespace ai
}  // namespace vitis
