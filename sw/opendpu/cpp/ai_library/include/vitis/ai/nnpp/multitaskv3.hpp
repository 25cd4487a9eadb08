// SPDX-License-Identifier: Apache-2.0
// Boxes, classes of pixels, lanes, where to drive and depth, out of the outputs of one network.
#pragma once

#include <cstddef>
#include <memory>
#include <opencv2/core.hpp>
#include <vector>

#include "vitis/ai/library/tensor.hpp"
#include "vitis/ai/proto/dpu_model_param.pb.h"

namespace vitis {
namespace ai {

struct Vehiclev3Result {
  int label;  // 0: car, 1: sign, 2: person
  float score;
  // The top left corner and the size, as shares of the image's width and height.
  float x;
  float y;
  float width;
  float height;
  float angle;  // always 0
};

struct MultiTaskv3Result {
  // Of the network's input.
  int width;
  int height;
  std::vector<Vehiclev3Result> vehicle;
  // Of their outputs' sizes: classes (CV_8UC1) or colours (CV_8UC3); depth is CV_8UC1.
  cv::Mat segmentation;
  cv::Mat lane;
  cv::Mat drivable;
  cv::Mat depth;
};

// The parameters are those of multi_task_param, with centerness_name and the names of four outputs
// for pixels, and the colours of segmentation_param, which count for lanes and drivable places, too.
class MultiTaskv3PostProcess {
 public:
  // The tensors' memory must live as long. Throws std::runtime_error where outputs, prior boxes and
  // classes do not fit.
  static std::unique_ptr<MultiTaskv3PostProcess> create(
      const std::vector<std::vector<library::InputTensor>>& input_tensors,
      const std::vector<std::vector<library::OutputTensor>>& output_tensors,
      const proto::DpuModelParam& config);

  // What is in the outputs now: with classes and the depth's output itself, or with colours and
  // depths of 1 to 80 metres, times 3.
  virtual std::vector<MultiTaskv3Result> post_process(std::size_t batch_size) = 0;
  virtual std::vector<MultiTaskv3Result> post_process_visualization(std::size_t batch_size) = 0;

  virtual ~MultiTaskv3PostProcess() = default;
  MultiTaskv3PostProcess(const MultiTaskv3PostProcess&) = delete;
  MultiTaskv3PostProcess& operator=(const MultiTaskv3PostProcess&) = delete;

 protected:
  MultiTaskv3PostProcess() = default;
};

}  // namespace ai
}  // namespace vitis
