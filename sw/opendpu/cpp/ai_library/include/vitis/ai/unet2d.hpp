// SPDX-License-Identifier: Apache-2.0
// Segmentation of slices with several channels, as of tomographies.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "vitis/ai/configurable_dpu_task.hpp"

namespace vitis {
namespace ai {

struct Unet2DResult {
  // Of the network's input.
  int width;
  int height;
  std::vector<float> data;  // the first output: rows, columns, channels
};

class Unet2D : public ConfigurableDpuTaskBase {
 public:
  // See ConfigurableDpuTask.
  static std::unique_ptr<Unet2D> create(const std::string& model_name,
                                        bool need_preprocess = true);

  // `len` values of a square slice with the channels of the input, the channels of a pixel one after
  // the other; its middle is taken. Throws std::invalid_argument where that is smaller than the
  // input.
  virtual Unet2DResult run(float* img, int len) = 0;
  virtual Unet2DResult run(const std::vector<float>& img) = 0;
  virtual std::vector<Unet2DResult> run(const std::vector<float*>& imgs, int len) = 0;
  virtual std::vector<Unet2DResult> run(const std::vector<std::vector<float>>& imgs) = 0;

 protected:
  using ConfigurableDpuTaskBase::ConfigurableDpuTaskBase;
};

}  // namespace ai
}  // namespace vitis
