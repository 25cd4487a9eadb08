// SPDX-License-Identifier: Apache-2.0
// Nuclei of cells in images.
#pragma once

#include <memory>
#include <opencv2/core.hpp>
#include <string>
#include <vector>

#include "vitis/ai/configurable_dpu_task.hpp"

namespace vitis {
namespace ai {

struct MedicalSegcellResult {
  // Of the network's input.
  int width;
  int height;
  // As large as the output. CV_8UC1: 255 in a nucleus, 0 elsewhere.
  cv::Mat segmentation;
};

class MedicalSegcell : public ConfigurableDpuTaskBase {
 public:
  // See ConfigurableDpuTask.
  static std::unique_ptr<MedicalSegcell> create(const std::string& model_name,
                                                bool need_preprocess = true);
  static std::unique_ptr<MedicalSegcell> create(const std::string& model_name, xir::Attrs* attrs,
                                                bool need_preprocess = true);

  // Images of any size, 8 bits a channel, in the order B, G, R.
  virtual MedicalSegcellResult run(const cv::Mat& image) = 0;
  virtual std::vector<MedicalSegcellResult> run(const std::vector<cv::Mat>& images) = 0;

 protected:
  using ConfigurableDpuTaskBase::ConfigurableDpuTaskBase;
};

}  // namespace ai
}  // namespace vitis
