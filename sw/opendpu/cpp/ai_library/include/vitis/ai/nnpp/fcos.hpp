// SPDX-License-Identifier: Apache-2.0
// Boxes out of the outputs of FCOS.
#pragma once

#include <vector>

#include "vitis/ai/library/tensor.hpp"
#include "vitis/ai/proto/dpu_model_param.pb.h"

namespace vitis {
namespace ai {

struct FCOSResult {
  struct BoundingBox {
    int label;
    float score;
    // Left, top, right and bottom in pixels of the image.
    std::vector<float> box;
  };
  std::vector<BoundingBox> bboxes;  // by falling score
};

// The parameters are those of fcos_param: of each stride, an output for classes, one for the
// distances to the four sides, and one for how much a cell is in the middle of its object. `ws` and
// `hs` are widths and heights of the samples' images.
std::vector<FCOSResult> fcos_post_process(const std::vector<library::InputTensor>& input_tensors,
                                          const std::vector<library::OutputTensor>& output_tensors,
                                          const proto::DpuModelParam& config,
                                          const std::vector<int>& ws, const std::vector<int>& hs);

}  // namespace ai
}  // namespace vitis
