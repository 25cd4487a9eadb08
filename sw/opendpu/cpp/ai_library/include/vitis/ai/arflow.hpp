// SPDX-License-Identifier: Apache-2.0
// How pixels move from one image to the next, by ARFlow.
#pragma once

#include <memory>
#include <opencv2/core.hpp>
#include <string>
#include <vector>

#include "vitis/ai/configurable_dpu_task.hpp"

namespace vitis {
namespace ai {

class ARFlow : public ConfigurableDpuTaskBase {
 public:
  // See ConfigurableDpuTask; the .prototxt has two kernels, whose names are in those of the inputs
  // for the first and the second image.
  static std::unique_ptr<ARFlow> create(const std::string& model_name, bool need_preprocess = true);

  // Images of any size, 8 bits a channel, in the order B, G, R. The network's outputs, the largest
  // first: columns and rows that each pixel moves. They are the task's, and change with the next run.
  virtual std::vector<library::OutputTensor> run(const cv::Mat& image_1,
                                                 const cv::Mat& image_2) = 0;
  // As many pairs as the network takes at a time; throws std::invalid_argument for other numbers.
  virtual std::vector<library::OutputTensor> run(const std::vector<cv::Mat>& image_1,
                                                 const std::vector<cv::Mat>& image_2) = 0;

 protected:
  using ConfigurableDpuTaskBase::ConfigurableDpuTaskBase;
};

}  // namespace ai
}  // namespace vitis
