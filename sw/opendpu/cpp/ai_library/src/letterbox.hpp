// SPDX-License-Identifier: Apache-2.0
// Images fitted into a network's input with their proportions kept.
#pragma once

#include <cstdint>
#include <opencv2/core.hpp>
#include <vector>

#include "vitis/ai/configurable_dpu_task.hpp"

namespace opendpu {
namespace tasks {

// The image in the middle of width x height; the rest has one value.
cv::Mat letterboxed(const cv::Mat& image, int width, int height, int fill);

// An image in the middle of a network's input; how much larger it is there, and what is left of and
// above it, in pixels.
struct Centred {
  cv::Mat image;
  float scale;
  int left, top;
};

// As PyTorch's YOLOs do it: sizes to the nearest, grey beside the image. `enlarge` says whether small
// images become larger.
Centred centred(const cv::Mat& image, int width, int height, bool enlarge);
// As YOLOv6's own evaluation does it: six pixels of grey beside the longer side.
Centred centred_with_margin(const cv::Mat& image, int width, int height);

// Runs a task on such an image, and its postprocessing, which takes where the image lies.
template <typename PostProcess>
auto run_centred(vitis::ai::ConfigurableDpuTask& task, const Centred& fitted, PostProcess post) {
  task.setInputImageRGB(fitted.image);
  task.run(0);
  return post(task.getInputTensor()[0], task.getOutputTensor()[0], task.getConfig(),
              {fitted.scale}, {fitted.left}, {fitted.top})
      .front();
}

// The same as Darknet does it, in floats: elements for an input whose values are pixels / 256 times
// `scale`; R, G, B. Beyond 127 they become 127.
std::vector<std::int8_t> darknet_letterboxed(const cv::Mat& image, int width, int height,
                                             float scale);

}  // namespace tasks
}  // namespace opendpu
