// SPDX-License-Identifier: Apache-2.0
// A number for a clip of gray images, by C2D2: a network for each image, and one over all of them.
#pragma once

#include <cstddef>
#include <memory>
#include <opencv2/core.hpp>
#include <string>
#include <vector>

namespace vitis {
namespace ai {

class C2D2_lite {
 public:
  // The networks of an image and of a clip; see ConfigurableDpuTask.
  static std::unique_ptr<C2D2_lite> create(const std::string& model_name0,
                                           const std::string& model_name1,
                                           bool need_preprocess = true);
  virtual ~C2D2_lite() = default;
  C2D2_lite(const C2D2_lite&) = delete;
  C2D2_lite& operator=(const C2D2_lite&) = delete;

  // A clip: images of any size, one channel of 8 bits, as many as the second network takes results
  // of the first. Throws std::invalid_argument for another number.
  virtual float run(const std::vector<cv::Mat>& image) = 0;
  // Clips.
  virtual std::vector<float> run(const std::vector<std::vector<cv::Mat>>& images) = 0;

  // Of an image's network.
  virtual int getInputWidth() const = 0;
  virtual int getInputHeight() const = 0;
  virtual std::size_t get_input_batch() const = 0;

 protected:
  C2D2_lite() = default;
};

}  // namespace ai
}  // namespace vitis
