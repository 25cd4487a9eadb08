// SPDX-License-Identifier: Apache-2.0
// Images of a higher resolution.
#pragma once

#include <memory>
#include <opencv2/core.hpp>
#include <string>
#include <vector>

#include "vitis/ai/configurable_dpu_task.hpp"
#include "vitis/ai/nnpp/rcan.hpp"

namespace vitis {
namespace ai {

class Rcan : public ConfigurableDpuTaskBase {
 public:
  // See ConfigurableDpuTask.
  static std::unique_ptr<Rcan> create(const std::string& model_name, bool need_preprocess = true);
  static std::unique_ptr<Rcan> create(const std::string& model_name, xir::Attrs* attrs,
                                       bool need_preprocess = true);

  // Images of any size, 8 bits a channel, in the order B, G, R.
  virtual RcanResult run(const cv::Mat& image) = 0;
  virtual std::vector<RcanResult> run(const std::vector<cv::Mat>& images) = 0;
  // Inputs as the network takes them, see DpuTask::run_with_xrt_bo; any number.
  virtual std::vector<RcanResult> run(const std::vector<vart::xrt_bo_t>& input_bos) = 0;

 protected:
  using ConfigurableDpuTaskBase::ConfigurableDpuTaskBase;
};

}  // namespace ai
}  // namespace vitis
