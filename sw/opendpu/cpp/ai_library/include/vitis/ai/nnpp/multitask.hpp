// SPDX-License-Identifier: Apache-2.0
// Boxes of vehicles with their angles and classes of pixels, out of the outputs of one network.
#pragma once

#include <cstddef>
#include <memory>
#include <opencv2/core.hpp>
#include <vector>

#include "vitis/ai/library/tensor.hpp"
#include "vitis/ai/proto/dpu_model_param.pb.h"

namespace vitis {
namespace ai {

struct VehicleResult {
  int label;  // 0 is the background, and never here
  float score;
  // The top left corner and the size, as shares of the image's width and height.
  float x;
  float y;
  float width;
  float height;
  float angle;  // in degrees, -180 to 180
};

struct MultiTaskResult {
  // Of the network's input.
  int width;
  int height;
  std::vector<VehicleResult> vehicle;
  cv::Mat segmentation;  // of the output's size: classes (CV_8UC1) or colours (CV_8UC3)
};

// The parameters are those of multi_task_param, whose boxes have six values (the last two point where
// a vehicle goes), and the colours of segmentation_param.
class MultiTaskPostProcess {
 public:
  // The tensors' memory must live as long. Throws std::runtime_error where outputs, prior boxes and
  // classes do not fit.
  static std::unique_ptr<MultiTaskPostProcess> create(
      const std::vector<std::vector<library::InputTensor>>& input_tensors,
      const std::vector<std::vector<library::OutputTensor>>& output_tensors,
      const proto::DpuModelParam& config);

  // What is in the outputs now: with classes, or with their colours.
  virtual std::vector<MultiTaskResult> post_process_seg(std::size_t batch_size) = 0;
  virtual std::vector<MultiTaskResult> post_process_seg_visualization(std::size_t batch_size) = 0;

  virtual ~MultiTaskPostProcess() = default;
  MultiTaskPostProcess(const MultiTaskPostProcess&) = delete;
  MultiTaskPostProcess& operator=(const MultiTaskPostProcess&) = delete;

 protected:
  MultiTaskPostProcess() = default;
};

}  // namespace ai
}  // namespace vitis
