// SPDX-License-Identifier: Apache-2.0
// Words in images.
#pragma once

#include <cstddef>
#include <memory>
#include <opencv2/core.hpp>
#include <string>
#include <vector>

#include "vitis/ai/library/tensor.hpp"
#include "vitis/ai/nnpp/ocr.hpp"

namespace vitis {
namespace ai {

class OCR {
 public:
  // See ConfigurableDpuTask; NAME_dict.txt beside the model has the words that are known, one a line.
  // Throws std::runtime_error where it is missing.
  static std::unique_ptr<OCR> create(const std::string& model_name, bool need_preprocess = true);
  virtual ~OCR() = default;
  OCR(const OCR&) = delete;

  // Images of any size, 8 bits a channel, in the order B, G, R.
  virtual OCRResult run(const cv::Mat& img) = 0;
  virtual std::vector<OCRResult> run(const std::vector<cv::Mat>& imgs) = 0;

  virtual int getInputWidth() const = 0;
  virtual int getInputHeight() const = 0;
  virtual std::size_t get_input_batch() const = 0;

 protected:
  OCR() = default;
};

}  // namespace ai
}  // namespace vitis
