// SPDX-License-Identifier: Apache-2.0
// Boxes out of the outputs of RefineDet.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "vitis/ai/library/tensor.hpp"
#include "vitis/ai/proto/dpu_model_param.pb.h"

namespace vitis {
namespace ai {

struct RefineDetResult {
  struct BoundingBox {
    // The top left corner and the size, as shares of the image's width and height; boxes may reach
    // beyond the image.
    float x;
    float y;
    float width;
    float height;
    int label;  // 0 is the background, and never here
    float score;
  };
  // Of the network's input.
  int width;
  int height;
  std::vector<BoundingBox> bboxes;
};

// The parameters are those of refine_det_param, whose layer_name are four: boxes and classes of the
// first stage, boxes and classes of the second. The first stage's boxes move the prior boxes, the
// second's move what came of it.
class RefineDetPostProcess {
 public:
  // The tensors' memory must live as long. Throws std::runtime_error where outputs, prior boxes and
  // classes do not fit.
  static std::unique_ptr<RefineDetPostProcess> create(
      const std::vector<library::InputTensor>& input_tensors,
      const std::vector<library::OutputTensor>& output_tensors,
      const proto::DpuModelParam& config);

  // What is in the outputs now.
  virtual std::vector<RefineDetResult> refine_det_post_process(std::size_t batch_size) = 0;

  virtual ~RefineDetPostProcess() = default;
  RefineDetPostProcess(const RefineDetPostProcess&) = delete;
  RefineDetPostProcess& operator=(const RefineDetPostProcess&) = delete;

 protected:
  RefineDetPostProcess() = default;
};

}  // namespace ai
}  // namespace vitis
