// SPDX-License-Identifier: Apache-2.0
// Boxes out of the outputs of EfficientDet.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "vitis/ai/library/tensor.hpp"
#include "vitis/ai/proto/dpu_model_param.pb.h"

namespace vitis {
namespace ai {

// Places are shares of the image's size; boxes may lie outside.
struct EfficientDetD2Result {
  // Of the image.
  int width;
  int height;
  struct BoundingBox {
    int label;
    float score;
    float x, y;  // the top left corner
    float width, height;
  };
  std::vector<BoundingBox> bboxes;  // by falling score
};

class EfficientDetD2PostProcess {
 public:
  // The parameters are those of efficientdet_d2_param. The tensors' memory is read in postprocess.
  static std::unique_ptr<EfficientDetD2PostProcess> create(
      const std::vector<library::InputTensor>& input_tensors,
      const std::vector<library::OutputTensor>& output_tensors,
      const proto::DpuModelParam& config);
  virtual ~EfficientDetD2PostProcess() = default;

  // Of every sample the image's size, and how many times as large it is in the input.
  virtual std::vector<EfficientDetD2Result> postprocess(
      std::size_t batch_size, const std::vector<int>& swidths, const std::vector<int>& sheights,
      const std::vector<float>& image_scales) = 0;
};

}  // namespace ai
}  // namespace vitis
