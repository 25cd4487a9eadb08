// SPDX-License-Identifier: Apache-2.0
// Boxes out of the outputs of YOLOX.
#pragma once

#include <vector>

#include "vitis/ai/library/tensor.hpp"
#include "vitis/ai/proto/dpu_model_param.pb.h"

namespace vitis {
namespace ai {

struct YOLOvXResult {
  struct BoundingBox {
    int label;
    float score;
    // Left, top, right and bottom in pixels of the image; may lie outside.
    std::vector<float> box;
  };
  std::vector<BoundingBox> bboxes;
};

// The parameters are those of yolo_v5_param; `scale` says how much larger the image in the input
// is than the program's, a number a sample.
std::vector<YOLOvXResult> yolovx_post_process(
    const std::vector<library::InputTensor>& input_tensors,
    const std::vector<library::OutputTensor>& output_tensors, const proto::DpuModelParam& config,
    const std::vector<float>& scale);

}  // namespace ai
}  // namespace vitis
