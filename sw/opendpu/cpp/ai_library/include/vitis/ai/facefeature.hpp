// SPDX-License-Identifier: Apache-2.0
// Features of a face, to know the same one again.
#pragma once

#include <memory>
#include <opencv2/core.hpp>
#include <string>
#include <vector>

#include "vitis/ai/configurable_dpu_task.hpp"
#include "vitis/ai/nnpp/facefeature.hpp"

namespace vitis {
namespace ai {

class FaceFeature : public ConfigurableDpuTaskBase {
 public:
  // See ConfigurableDpuTask.
  static std::unique_ptr<FaceFeature> create(const std::string& model_name,
                                             bool need_preprocess = true);
  static std::unique_ptr<FaceFeature> create(const std::string& model_name, xir::Attrs* attrs,
                                             bool need_preprocess = true);

  // Aligned faces of any size, 8 bits a channel, in the order B, G, R. Real values, or the output's
  // elements.
  virtual FaceFeatureFloatResult run(const cv::Mat& image) = 0;
  virtual FaceFeatureFixedResult run_fixed(const cv::Mat& image) = 0;
  virtual std::vector<FaceFeatureFloatResult> run(const std::vector<cv::Mat>& images) = 0;
  virtual std::vector<FaceFeatureFixedResult> run_fixed(const std::vector<cv::Mat>& images) = 0;

 protected:
  using ConfigurableDpuTaskBase::ConfigurableDpuTaskBase;
};

}  // namespace ai
}  // namespace vitis
