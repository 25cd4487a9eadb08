// SPDX-License-Identifier: Apache-2.0
// Words out of the outputs of a network that says where text is and which letters.
#pragma once

#include <memory>
#include <opencv2/core.hpp>
#include <string>
#include <vector>

#include "vitis/ai/library/tensor.hpp"

namespace vitis {
namespace ai {

struct OCRResult {
  // Of the network's input.
  int width = 0;
  int height = 0;
  // Of each word its text, and its corners in pixels of the image, clockwise from the top left.
  std::vector<std::string> words;
  std::vector<std::vector<cv::Point>> box;
};

class OCRPost {
 public:
  // `cfgpath` is a file of words, one a line. Of each image: rows and columns of the input that it
  // fills, pixels of the image for one of these, and every fourth pixel of what was put in. All must
  // live as long, as must the tensors' memory. Throws std::runtime_error where there is no such file,
  // or the outputs are not a map of text and links and one, twice as large, of 37 signs.
  static std::unique_ptr<OCRPost> create(const std::vector<library::InputTensor>& input_tensors,
                                         const std::vector<library::OutputTensor>& output_tensors,
                                         const std::string& cfgpath, int batch_size,
                                         int& real_batch_size, std::vector<int>& target_h8,
                                         std::vector<int>& target_w8, std::vector<float>& ratioh,
                                         std::vector<float>& ratiow, std::vector<cv::Mat>& oriimg);

  virtual OCRResult process(int idx) = 0;
  virtual std::vector<OCRResult> process() = 0;
  virtual ~OCRPost() = default;
  OCRPost(const OCRPost&) = delete;
  OCRPost& operator=(const OCRPost&) = delete;

 protected:
  OCRPost() = default;
};

}  // namespace ai
}  // namespace vitis
