// SPDX-License-Identifier: Apache-2.0
// Joints of the person in the middle of an image, by MoveNet.
#pragma once

#include <cstddef>
#include <memory>
#include <opencv2/core.hpp>
#include <string>
#include <vector>

namespace vitis {
namespace ai {

struct MovenetResult {
  // Of the network's input.
  int width;
  int height;
  // Seventeen joints, in COCO's order, in pixels of the image; negative where they are not found.
  std::vector<cv::Point2f> poses;
};

class Movenet {
 public:
  // See ConfigurableDpuTask.
  static std::unique_ptr<Movenet> create(const std::string& model_name,
                                         bool need_preprocess = true);
  Movenet() = default;
  Movenet(const Movenet&) = delete;
  virtual ~Movenet() = default;

  // Images of any size, 8 bits a channel, in the order B, G, R.
  virtual MovenetResult run(const cv::Mat& image) = 0;
  virtual std::vector<MovenetResult> run(const std::vector<cv::Mat>& images) = 0;

  virtual int getInputWidth() const = 0;
  virtual int getInputHeight() const = 0;
  virtual std::size_t get_input_batch() const = 0;
};

}  // namespace ai
}  // namespace vitis
