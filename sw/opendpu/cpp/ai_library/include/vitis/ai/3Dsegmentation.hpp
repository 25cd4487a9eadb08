// SPDX-License-Identifier: Apache-2.0
// Classes of a laser scanner's points, by SalsaNext.
#pragma once

#include <cstddef>
#include <memory>
#include <opencv2/core.hpp>
#include <string>
#include <vector>

using V1F = std::vector<float>;
using V2F = std::vector<V1F>;
using V3F = std::vector<V2F>;
using V1I = std::vector<int>;
using V2I = std::vector<V1I>;

namespace vitis {
namespace ai {

struct Segmentation3DResult {
  // Of the network's input.
  int width;
  int height;
  // The label of each point, as in SemanticKITTI: 10 for cars, 40 for roads ...
  std::vector<int> array;
};

class Segmentation3D {
 public:
  // See ConfigurableDpuTask. The network sees points as an image of their directions: around the
  // scanner from left to right, 3 degrees up to 25 down. Throws std::runtime_error where it does not
  // fit.
  static std::unique_ptr<Segmentation3D> create(const std::string& model_name,
                                                bool need_mean_scale_process = false);
  virtual ~Segmentation3D() = default;
  Segmentation3D(const Segmentation3D&) = delete;
  Segmentation3D& operator=(const Segmentation3D&) = delete;

  virtual int getInputWidth() const = 0;
  virtual int getInputHeight() const = 0;
  virtual std::size_t get_input_batch() const = 0;

  // Four rows of as many values: x, y, z in metres and how much a point reflects. Throws
  // std::invalid_argument for others.
  virtual Segmentation3DResult run(std::vector<std::vector<float>>& array) = 0;
  virtual std::vector<Segmentation3DResult> run(
      std::vector<std::vector<std::vector<float>>>& arrays) = 0;

 protected:
  Segmentation3D() = default;
};

}  // namespace ai
}  // namespace vitis
