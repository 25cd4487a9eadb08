// SPDX-License-Identifier: Apache-2.0
// Raw images of a camera without their noise, by PMRID.
#pragma once

#include <memory>
#include <opencv2/core.hpp>
#include <string>
#include <vector>

#include "vitis/ai/configurable_dpu_task.hpp"

namespace vitis {
namespace ai {

class PMRID : public ConfigurableDpuTaskBase {
 public:
  // See ConfigurableDpuTask; means and scales are not used.
  static std::unique_ptr<PMRID> create(const std::string& model_name, bool need_preprocess = true);
  static std::unique_ptr<PMRID> create(const std::string& model_name, xir::Attrs* attrs,
                                       bool need_preprocess = true);

  // A Bayer image of 16 bits, upside down and mirrored, and the camera's ISO number; as many values
  // come back, 1 for 65535, in the order of the turned image. Half as many rows and columns, filled
  // up on both sides to a multiple of 32, must be those of the input (AMD's model: 3000 x 4000 to
  // 1504 x 2016), or std::invalid_argument is thrown.
  virtual std::vector<float> run(const cv::Mat& image, float raw_info) = 0;
  virtual std::vector<std::vector<float>> run(const std::vector<cv::Mat>& images,
                                              const std::vector<float>& raw_infos) = 0;

 protected:
  using ConfigurableDpuTaskBase::ConfigurableDpuTaskBase;
};

}  // namespace ai
}  // namespace vitis
