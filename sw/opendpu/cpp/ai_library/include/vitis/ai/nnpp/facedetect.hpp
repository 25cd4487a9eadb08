// SPDX-License-Identifier: Apache-2.0
// Faces out of the outputs of DenseBox.
#pragma once

#include <vector>

#include "vitis/ai/library/tensor.hpp"
#include "vitis/ai/proto/dpu_model_param.pb.h"

namespace vitis {
namespace ai {

struct FaceDetectResult {
  struct BoundingBox {
    // The top left corner and the size, as shares of the image's width and height.
    float x;
    float y;
    float width;
    float height;
    float score;
  };
  // Of the network's input.
  int width;
  int height;
  std::vector<BoundingBox> rects;
};

// Faces with a score above det_threshold; the overlap that is allowed is nms_threshold of
// dense_box_param. Tensors are those of all kernels, of which the first counts.
std::vector<FaceDetectResult> face_detect_post_process(
    const std::vector<std::vector<library::InputTensor>>& input_tensors,
    const std::vector<std::vector<library::OutputTensor>>& output_tensors,
    const proto::DpuModelParam& config, const float det_threshold);

}  // namespace ai
}  // namespace vitis
