// SPDX-License-Identifier: Apache-2.0
// Lines of text out of the output of TextMountain.
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <opencv2/core.hpp>
#include <opencv2/highgui.hpp>
#include <opencv2/imgproc.hpp>
#include <opencv2/imgproc/imgproc_c.h>
#include <vector>

#include "vitis/ai/library/tensor.hpp"

namespace vitis {
namespace ai {

typedef cv::Point2d arr4_point2d[4];

struct TextMountainResult {
  // Of the network's input.
  int width = 0;
  int height = 0;
  struct tmitem {
    tmitem(arr4_point2d& inbox, float inscore) : score(inscore) {
      std::copy(inbox, inbox + 4, box);
    }
    arr4_point2d box;  // corners in pixels of the image, clockwise
    float score;
  };
  std::vector<tmitem> res;
};

class TextMountainPost {
 public:
  // The tensors' memory, the number of images in it and the scales of each (pixels of the output
  // for one of the image) must live as long. Throws std::runtime_error for fewer than three channels.
  static std::unique_ptr<TextMountainPost> create(
      const std::vector<library::InputTensor>& input_tensors,
      const std::vector<library::OutputTensor>& output_tensors, int batch_size,
      int& real_batch_size, float* scale_h, float* scale_w);

  virtual TextMountainResult process(int idx) = 0;
  virtual std::vector<TextMountainResult> process() = 0;
  virtual ~TextMountainPost() = default;
  TextMountainPost(const TextMountainPost&) = delete;
  TextMountainPost& operator=(const TextMountainPost&) = delete;

 protected:
  TextMountainPost() = default;
};

}  // namespace ai
}  // namespace vitis
