// SPDX-License-Identifier: Apache-2.0
// Classes of pixels in images with depth, by SA-Gate.
#pragma once

#include <memory>
#include <opencv2/core.hpp>
#include <string>
#include <vector>

#include "vitis/ai/configurable_dpu_task.hpp"
#include "vitis/ai/nnpp/segmentation.hpp"

namespace vitis {
namespace ai {

class RGBDsegmentation : public ConfigurableDpuTaskBase {
 public:
  // See ConfigurableDpuTask; the first input is for the image, the second for the depth.
  static std::unique_ptr<RGBDsegmentation> create(const std::string& model_name,
                                                  bool need_preprocess = true);

  // An image and its depth, as HHA, of one size, 8 bits a channel. Small ones are put into the middle
  // of the input, large ones are cut into pieces that overlap. The class of each pixel of the image,
  // CV_8UC1.
  virtual SegmentationResult run(const cv::Mat& image_bgr, const cv::Mat& image_hha) = 0;

 protected:
  using ConfigurableDpuTaskBase::ConfigurableDpuTaskBase;
};

}  // namespace ai
}  // namespace vitis
