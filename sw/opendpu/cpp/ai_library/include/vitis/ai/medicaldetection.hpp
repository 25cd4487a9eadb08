// SPDX-License-Identifier: Apache-2.0
// Lesions in images of endoscopes, by RefineDet.
#pragma once

#include <memory>
#include <opencv2/core.hpp>
#include <string>
#include <vector>

#include "vitis/ai/configurable_dpu_task.hpp"
#include "vitis/ai/nnpp/medicaldetection.hpp"

namespace vitis {
namespace ai {

class MedicalDetection : public ConfigurableDpuTaskBase {
 public:
  // See ConfigurableDpuTask.
  static std::unique_ptr<MedicalDetection> create(const std::string& model_name,
                                                  bool need_preprocess = true);
  static std::unique_ptr<MedicalDetection> create(const std::string& model_name,
                                                  xir::Attrs* attrs, bool need_preprocess = true);

  // Images of any size, 8 bits a channel, in the order B, G, R.
  virtual MedicalDetectionResult run(const cv::Mat& image) = 0;
  virtual std::vector<MedicalDetectionResult> run(const std::vector<cv::Mat>& images) = 0;

 protected:
  using ConfigurableDpuTaskBase::ConfigurableDpuTaskBase;
};

}  // namespace ai
}  // namespace vitis
