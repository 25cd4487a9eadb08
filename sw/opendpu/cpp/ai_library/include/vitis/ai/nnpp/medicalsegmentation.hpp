// SPDX-License-Identifier: Apache-2.0
// Classes of pixels out of a network with several outputs.
#pragma once

#include <memory>
#include <opencv2/core.hpp>
#include <vector>

#include "vitis/ai/library/tensor.hpp"
#include "vitis/ai/proto/dpu_model_param.pb.h"

namespace vitis {
namespace ai {

struct MedicalSegmentationResult {
  // Of the network's input.
  int width;
  int height;
  // A picture of each output's size, in the order of outputs: the numbers of classes, 8 bits a pixel.
  std::vector<cv::Mat> segmentation;
};

class MedicalSegmentationPostProcess {
 public:
  // The tensors' memory and the number of samples are read when the functions run.
  static std::unique_ptr<MedicalSegmentationPostProcess> create(
      const std::vector<library::InputTensor>& input_tensors,
      const std::vector<library::OutputTensor>& output_tensors,
      const proto::DpuModelParam& config, int& real_batch_size);
  virtual ~MedicalSegmentationPostProcess() = default;

  virtual MedicalSegmentationResult medicalsegmentation_post_process(unsigned int idx) = 0;
  virtual std::vector<MedicalSegmentationResult> medicalsegmentation_post_process() = 0;
};

}  // namespace ai
}  // namespace vitis
