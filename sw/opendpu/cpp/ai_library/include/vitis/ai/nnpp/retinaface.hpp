// SPDX-License-Identifier: Apache-2.0
// Faces out of the outputs of RetinaFace.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "vitis/ai/library/tensor.hpp"
#include "vitis/ai/proto/dpu_model_param.pb.h"

namespace vitis {
namespace ai {

// Places are shares of the input's size.
struct RetinaFaceResult {
  struct BoundingBox {
    float x, y;  // the top left corner
    float width, height;
    float score;
  };
  // Of the network's input.
  int width;
  int height;
  std::vector<BoundingBox> bboxes;
  // Of each face x and y of both eyes, the nose and both corners of the mouth.
  std::vector<std::array<std::pair<float, float>, 5>> landmarks;
};

class RetinaFacePostProcess {
 public:
  // The parameters are those of retinaface_param. The tensors' memory is read in
  // retinaface_post_process.
  static std::unique_ptr<RetinaFacePostProcess> create(
      const std::vector<library::InputTensor>& input_tensors,
      const std::vector<library::OutputTensor>& output_tensors,
      const proto::DpuModelParam& config);
  virtual ~RetinaFacePostProcess() = default;

  virtual std::vector<RetinaFaceResult> retinaface_post_process(std::size_t batch_size) = 0;
};

}  // namespace ai
}  // namespace vitis
