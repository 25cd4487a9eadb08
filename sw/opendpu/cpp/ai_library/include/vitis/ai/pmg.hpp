// SPDX-License-Identifier: Apache-2.0
// Products in images, by PMG.
#pragma once

#include <memory>
#include <opencv2/core.hpp>
#include <string>
#include <vector>

#include "vitis/ai/configurable_dpu_task.hpp"

namespace vitis {
namespace ai {

struct PMGResult {
  // Of the network's input.
  int width;
  int height;
  // The class with the largest value, the first of several.
  int classidx;
};

class PMG : public ConfigurableDpuTaskBase {
 public:
  // See ConfigurableDpuTask.
  static std::unique_ptr<PMG> create(const std::string& model_name, bool need_preprocess = true);
  static std::unique_ptr<PMG> create(const std::string& model_name, xir::Attrs* attrs,
                                     bool need_preprocess = true);

  // Images of any size, 8 bits a channel, in the order B, G, R.
  virtual PMGResult run(const cv::Mat& image) = 0;
  virtual std::vector<PMGResult> run(const std::vector<cv::Mat>& images) = 0;

 protected:
  using ConfigurableDpuTaskBase::ConfigurableDpuTaskBase;
};

}  // namespace ai
}  // namespace vitis
