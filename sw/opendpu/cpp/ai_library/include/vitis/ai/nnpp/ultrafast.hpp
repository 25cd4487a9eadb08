// SPDX-License-Identifier: Apache-2.0
// Lanes out of the output of Ultra Fast Lane Detection.
#pragma once

#include <memory>
#include <opencv2/core.hpp>
#include <utility>
#include <vector>

#include "vitis/ai/library/tensor.hpp"
#include "vitis/ai/proto/dpu_model_param.pb.h"

namespace vitis {
namespace ai {

struct UltraFastResult {
  // Of the network's input.
  int width = 0;
  int height = 0;
  // Of each lane x and y in pixels of the image, where it crosses eighteen lines across the image; x
  // is -2 where it does not.
  std::vector<std::vector<std::pair<float, float>>> lanes;
};

class UltraFastPost {
 public:
  // The tensors' memory, the number of samples and the sizes of images, one a sample, are read in
  // post_process.
  static std::unique_ptr<UltraFastPost> create(
      const std::vector<library::InputTensor>& input_tensors,
      const std::vector<library::OutputTensor>& output_tensors,
      const proto::DpuModelParam& config, int batch_size, int& real_batch_size,
      std::vector<cv::Size>& pic_size);
  virtual ~UltraFastPost() = default;

  virtual UltraFastResult post_process(unsigned int idx) = 0;
  virtual std::vector<UltraFastResult> post_process() = 0;
};

}  // namespace ai
}  // namespace vitis
