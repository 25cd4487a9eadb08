// SPDX-License-Identifier: Apache-2.0
// Classes or colours of pixels out of the output of a segmentation network.
#pragma once

#include <opencv2/core.hpp>
#include <vector>

#include "vitis/ai/library/tensor.hpp"
#include "vitis/ai/proto/dpu_model_param.pb.h"

namespace vitis {
namespace ai {

struct SegmentationResult {
  // Of the network's input.
  int width;
  int height;
  // As large as the output. CV_8UC1: the class with the largest value, the first of several;
  // CV_8UC3: its colour.
  cv::Mat segmentation;
};

// Pictures of two outputs, each as in SegmentationResult.
struct Covid19SegmentationResult {
  // Of the network's input.
  int width;
  int height;
  cv::Mat positive_classification;
  cv::Mat infected_area_classification;
};

// A result a sample. With HARDWARE_ARGMAX=1 in the environment the output has classes already.
std::vector<SegmentationResult> segmentation_post_process_8UC1(
    const library::InputTensor& input_tensor, const library::OutputTensor& output_tensor);
// color1, color2 and color3 of segmentation_param are blue, green and red of the classes.
std::vector<SegmentationResult> segmentation_post_process_8UC3(
    const library::InputTensor& input_tensor, const library::OutputTensor& output_tensor,
    const proto::DpuModelParam& config);

}  // namespace ai
}  // namespace vitis
