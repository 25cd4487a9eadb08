// SPDX-License-Identifier: Apache-2.0
// Boxes out of the outputs of SSD.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "vitis/ai/library/tensor.hpp"
#include "vitis/ai/proto/dpu_model_param.pb.h"

namespace vitis {
namespace ai {

struct SSDResult {
  struct BoundingBox {
    int label;  // 0 is the background, and never here
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

// The parameters are those of ssd_param; prior boxes are made once.
class SSDPostProcess {
 public:
  // The tensors' memory must live as long. Throws std::runtime_error where outputs, prior boxes and
  // classes do not fit.
  static std::unique_ptr<SSDPostProcess> create(
      const std::vector<library::InputTensor>& input_tensors,
      const std::vector<library::OutputTensor>& output_tensors,
      const proto::DpuModelParam& config);

  // What is in the outputs now.
  virtual std::vector<SSDResult> ssd_post_process(std::size_t batch_size) = 0;

  virtual ~SSDPostProcess() = default;
  SSDPostProcess(const SSDPostProcess&) = delete;
  SSDPostProcess& operator=(const SSDPostProcess&) = delete;

 protected:
  SSDPostProcess() = default;
};

}  // namespace ai
}  // namespace vitis
