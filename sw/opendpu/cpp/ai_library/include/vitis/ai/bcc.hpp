// SPDX-License-Identifier: Apache-2.0
// How many persons are in images, by Bayesian crowd counting.
#pragma once

#include <memory>
#include <opencv2/core.hpp>
#include <string>
#include <vector>

#include "vitis/ai/configurable_dpu_task.hpp"

namespace vitis {
namespace ai {

struct BCCResult {
  // Of the network's input.
  int width;
  int height;
  int count;
};

class BCC : public ConfigurableDpuTaskBase {
 public:
  // See ConfigurableDpuTask.
  static std::unique_ptr<BCC> create(const std::string& model_name, bool need_preprocess = true);
  static std::unique_ptr<BCC> create(const std::string& model_name, xir::Attrs* attrs,
                                     bool need_preprocess = true);

  // Images of any size, 8 bits a channel, in the order B, G, R.
  virtual BCCResult run(const cv::Mat& image) = 0;
  virtual std::vector<BCCResult> run(const std::vector<cv::Mat>& images) = 0;

 protected:
  using ConfigurableDpuTaskBase::ConfigurableDpuTaskBase;
};

}  // namespace ai
}  // namespace vitis
