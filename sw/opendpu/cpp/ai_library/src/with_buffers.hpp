// SPDX-License-Identifier: Apache-2.0
// Tasks that take images and inputs in memory from XRT, any number of them.
#pragma once

#include <opencv2/core.hpp>
#include <vector>

#include "one_by_one.hpp"

namespace opendpu {
namespace tasks {

// Both, over running an image and telling what is in the task's outputs.
template <typename Base, typename Result>
class WithBuffers : public Base {
 public:
  using Base::Base;
  using Base::run;

  std::vector<Result> run(const std::vector<cv::Mat>& images) override {
    return one_by_one(images, [this](const cv::Mat& image) { return this->run(image); });
  }
  std::vector<Result> run(const std::vector<vart::xrt_bo_t>& input_bos) override {
    return one_by_one(input_bos, *this->configurable_dpu_task_, [this] { return found(); });
  }

 protected:
  virtual Result found() = 0;
};

}  // namespace tasks
}  // namespace opendpu
