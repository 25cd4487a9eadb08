// SPDX-License-Identifier: Apache-2.0
// Boxes out of the outputs of RetinaNet.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "vitis/ai/library/tensor.hpp"
#include "vitis/ai/proto/dpu_model_param.pb.h"

namespace vitis {
namespace ai {

// x, y, w and h are left, top, right and bottom, in pixels of the network's input.
struct RetinaNetBoundingBox {
  float x;
  float y;
  float w;
  float h;
  float score;
  std::size_t label;
};

// The parameters are those of retinanet_param. Outputs are classes of every level, then boxes of
// every level, the finest first: nine anchors a cell.
class RetinaNetPostProcess {
 public:
  // The tensors' memory must live as long. Throws std::runtime_error where outputs do not fit.
  static std::unique_ptr<RetinaNetPostProcess> create(
      const std::vector<library::InputTensor>& input_tensors,
      const std::vector<library::OutputTensor>& output_tensors,
      const proto::DpuModelParam& config);

  // What is in the outputs now, by falling score.
  virtual std::vector<std::vector<RetinaNetBoundingBox>> retinanet_post_process(
      std::size_t batch_size) = 0;

  virtual ~RetinaNetPostProcess() = default;
  RetinaNetPostProcess(const RetinaNetPostProcess&) = delete;
  RetinaNetPostProcess& operator=(const RetinaNetPostProcess&) = delete;

 protected:
  RetinaNetPostProcess() = default;
};

}  // namespace ai
}  // namespace vitis
