// SPDX-License-Identifier: Apache-2.0
// Images in the order of colours that a configuration says.
#pragma once

#include "outputs.hpp"
#include "vitis/ai/configurable_dpu_task.hpp"

namespace opendpu {
namespace tasks {

// Resizes an image to the task's input, and runs the task with it.
inline void run_with(vitis::ai::ConfigurableDpuTask& task, const cv::Mat& image) {
  const auto fitted = resized(image, task.getInputWidth(), task.getInputHeight());
  if (task.getConfig().order_type() == vitis::ai::proto::DpuModelParam::RGB) {
    task.setInputImageRGB(fitted);
  } else {
    task.setInputImageBGR(fitted);
  }
  task.run(0);
}

}  // namespace tasks
}  // namespace opendpu
