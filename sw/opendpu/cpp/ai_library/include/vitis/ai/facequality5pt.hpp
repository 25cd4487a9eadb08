// SPDX-License-Identifier: Apache-2.0
// How good a picture of a face is, and five points of it.
#pragma once

#include <memory>
#include <opencv2/core.hpp>
#include <string>
#include <vector>

#include "vitis/ai/configurable_dpu_task.hpp"
#include "vitis/ai/nnpp/facequality5pt.hpp"

namespace vitis {
namespace ai {

class FaceQuality5pt : public ConfigurableDpuTaskBase {
 public:
  // Pictures by night are judged more mildly.
  enum class Mode { DAY, NIGHT };
  virtual Mode getMode() = 0;
  virtual void setMode(Mode mode) = 0;

  // See ConfigurableDpuTask.
  static std::unique_ptr<FaceQuality5pt> create(const std::string& model_name, bool need_preprocess = true);
  static std::unique_ptr<FaceQuality5pt> create(const std::string& model_name, xir::Attrs* attrs,
                                       bool need_preprocess = true);

  // Images of any size, 8 bits a channel, in the order B, G, R.
  virtual FaceQuality5ptResult run(const cv::Mat& image) = 0;
  virtual std::vector<FaceQuality5ptResult> run(const std::vector<cv::Mat>& images) = 0;

 protected:
  using ConfigurableDpuTaskBase::ConfigurableDpuTaskBase;
};

}  // namespace ai
}  // namespace vitis
