// SPDX-License-Identifier: Apache-2.0
// Lines on roads in images.
#pragma once

#include <memory>
#include <opencv2/core.hpp>
#include <string>
#include <vector>

#include "vitis/ai/configurable_dpu_task.hpp"
#include "vitis/ai/nnpp/lanedetect.hpp"

namespace vitis {
namespace ai {

class RoadLine : public ConfigurableDpuTaskBase {
 public:
  // See ConfigurableDpuTask.
  static std::unique_ptr<RoadLine> create(const std::string& model_name,
                                          bool need_preprocess = true);

  // Images of any size, 8 bits a channel, in the order B, G, R.
  virtual RoadLineResult run(const cv::Mat& image) = 0;
  virtual std::vector<RoadLineResult> run(const std::vector<cv::Mat>& images) = 0;

 protected:
  using ConfigurableDpuTaskBase::ConfigurableDpuTaskBase;
};

}  // namespace ai
}  // namespace vitis
