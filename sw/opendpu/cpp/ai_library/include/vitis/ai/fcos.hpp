// SPDX-License-Identifier: Apache-2.0
// Objects in images, by FCOS.
#pragma once

#include <memory>
#include <opencv2/core.hpp>
#include <string>
#include <vector>

#include "vitis/ai/configurable_dpu_task.hpp"
#include "vitis/ai/nnpp/fcos.hpp"

namespace vitis {
namespace ai {

class FCOS : public ConfigurableDpuTaskBase {
 public:
  // See ConfigurableDpuTask.
  static std::unique_ptr<FCOS> create(const std::string& model_name, bool need_preprocess = true);
  static std::unique_ptr<FCOS> create(const std::string& model_name, xir::Attrs* attrs,
                                      bool need_preprocess = true);

  // Images of any size, 8 bits a channel, in the order B, G, R.
  virtual FCOSResult run(const cv::Mat& image) = 0;
  virtual std::vector<FCOSResult> run(const std::vector<cv::Mat>& images) = 0;

 protected:
  using ConfigurableDpuTaskBase::ConfigurableDpuTaskBase;
};

}  // namespace ai
}  // namespace vitis
