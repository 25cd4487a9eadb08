// SPDX-License-Identifier: Apache-2.0
// Objects with their outlines, by SOLO (decoupled, light).
#pragma once

#include <memory>
#include <opencv2/core.hpp>
#include <string>
#include <vector>

#include "vitis/ai/configurable_dpu_task.hpp"
#include "vitis/ai/nnpp/solo.hpp"

namespace vitis {
namespace ai {

class Solo : public ConfigurableDpuTaskBase {
 public:
  // See ConfigurableDpuTask; solo_param names the image's input, then those of coordinates, and the
  // outputs in the order of solo_post_process.
  static std::unique_ptr<Solo> create(const std::string& model_name, bool need_preprocess = true);

  // Images of any size, 8 bits a channel, in the order B, G, R.
  virtual SoloResult run(const cv::Mat& image) = 0;
  virtual std::vector<SoloResult> run(const std::vector<cv::Mat>& images) = 0;

 protected:
  using ConfigurableDpuTaskBase::ConfigurableDpuTaskBase;
};

}  // namespace ai
}  // namespace vitis
