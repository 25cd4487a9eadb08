// SPDX-License-Identifier: Apache-2.0
// Where text is in images, by TextMountain.
#pragma once

#include <cstddef>
#include <memory>
#include <opencv2/core.hpp>
#include <string>
#include <vector>

#include "vitis/ai/library/tensor.hpp"
#include "vitis/ai/nnpp/textmountain.hpp"

namespace vitis {
namespace ai {

class TextMountain {
 public:
  // See ConfigurableDpuTask.
  static std::unique_ptr<TextMountain> create(const std::string& model_name,
                                              bool need_preprocess = true);
  virtual ~TextMountain() = default;
  TextMountain(const TextMountain&) = delete;

  // Images of any size, 8 bits a channel, in the order B, G, R. Their longer side becomes the
  // input's width.
  virtual TextMountainResult run(const cv::Mat& img) = 0;
  virtual std::vector<TextMountainResult> run(const std::vector<cv::Mat>& imgs) = 0;

  virtual int getInputWidth() const = 0;
  virtual int getInputHeight() const = 0;
  virtual std::size_t get_input_batch() const = 0;

 protected:
  TextMountain() = default;
};

}  // namespace ai
}  // namespace vitis
