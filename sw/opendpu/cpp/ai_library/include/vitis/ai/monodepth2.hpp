// SPDX-License-Identifier: Apache-2.0
// How near what images show is, by Monodepth2.
#pragma once

#include <memory>
#include <opencv2/core.hpp>
#include <string>
#include <vector>

#include "vitis/ai/configurable_dpu_task.hpp"

namespace vitis {
namespace ai {

struct Monodepth2Result {
  // Of the network's input.
  int width;
  int height;
  // As large as the output. CV_32FC1: one over the distance, 0.01 to 10.
  cv::Mat mat;
};

class Monodepth2 : public ConfigurableDpuTaskBase {
 public:
  // See ConfigurableDpuTask.
  static std::unique_ptr<Monodepth2> create(const std::string& model_name,
                                            bool need_preprocess = true);
  static std::unique_ptr<Monodepth2> create(const std::string& model_name, xir::Attrs* attrs,
                                            bool need_preprocess = true);

  // Images of any size, 8 bits a channel, in the order B, G, R.
  virtual Monodepth2Result run(const cv::Mat& image) = 0;
  virtual std::vector<Monodepth2Result> run(const std::vector<cv::Mat>& images) = 0;

 protected:
  using ConfigurableDpuTaskBase::ConfigurableDpuTaskBase;
};

}  // namespace ai
}  // namespace vitis
