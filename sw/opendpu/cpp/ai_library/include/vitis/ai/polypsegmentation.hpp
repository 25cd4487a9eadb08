// SPDX-License-Identifier: Apache-2.0
// Polyps in images.
#pragma once

#include <memory>
#include <opencv2/core.hpp>
#include <string>
#include <vector>

#include "vitis/ai/configurable_dpu_task.hpp"
#include "vitis/ai/nnpp/segmentation.hpp"

namespace vitis {
namespace ai {

// In results, width, height and segmentation are those of the program's image; CV_8UC1: how sure it
// is that a pixel is a polyp's, 255 times.
class PolypSegmentation : public ConfigurableDpuTaskBase {
 public:
  // See ConfigurableDpuTask.
  static std::unique_ptr<PolypSegmentation> create(const std::string& model_name,
                                                   bool need_preprocess = true);
  static std::unique_ptr<PolypSegmentation> create(const std::string& model_name,
                                                   xir::Attrs* attrs, bool need_preprocess = true);

  // Images of any size, 8 bits a channel, in the order B, G, R.
  virtual SegmentationResult run(const cv::Mat& image) = 0;
  virtual std::vector<SegmentationResult> run(const std::vector<cv::Mat>& images) = 0;

 protected:
  using ConfigurableDpuTaskBase::ConfigurableDpuTaskBase;
};

}  // namespace ai
}  // namespace vitis
