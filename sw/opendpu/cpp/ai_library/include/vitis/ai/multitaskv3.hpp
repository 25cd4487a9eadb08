// SPDX-License-Identifier: Apache-2.0
// Cars, signs and persons, classes of pixels, lanes, where to drive and depth, by one network.
#pragma once

#include <memory>
#include <opencv2/core.hpp>
#include <string>
#include <vector>

#include "vitis/ai/configurable_dpu_task.hpp"
#include "vitis/ai/nnpp/multitaskv3.hpp"

namespace vitis {
namespace ai {

class MultiTaskv3 : public ConfigurableDpuTaskBase {
 public:
  // See ConfigurableDpuTask.
  static std::unique_ptr<MultiTaskv3> create(const std::string& model_name,
                                           bool need_preprocess = true);

  // Images of any size, 8 bits a channel, in the order B, G, R. Pixels as classes, with
  // the depth's output as it is, or as colours, with the depth in thirds of a metre.
  virtual MultiTaskv3Result run_8UC1(const cv::Mat& image) = 0;
  virtual std::vector<MultiTaskv3Result> run_8UC1(const std::vector<cv::Mat>& images) = 0;
  virtual MultiTaskv3Result run_8UC3(const cv::Mat& image) = 0;
  virtual std::vector<MultiTaskv3Result> run_8UC3(const std::vector<cv::Mat>& images) = 0;

 protected:
  using ConfigurableDpuTaskBase::ConfigurableDpuTaskBase;
};

// The same with one way to run, for templates.
class MultiTaskv38UC1 {
 public:
  static std::unique_ptr<MultiTaskv38UC1> create(const std::string& model_name,
                                               bool need_preprocess = true);
  explicit MultiTaskv38UC1(std::unique_ptr<MultiTaskv3> multitaskv3)
      : multitaskv3_(std::move(multitaskv3)) {}
  int getInputWidth() const { return multitaskv3_->getInputWidth(); }
  int getInputHeight() const { return multitaskv3_->getInputHeight(); }
  std::size_t get_input_batch() const { return multitaskv3_->get_input_batch(); }
  MultiTaskv3Result run(const cv::Mat& image) { return multitaskv3_->run_8UC1(image); }
  std::vector<MultiTaskv3Result> run(const std::vector<cv::Mat>& images) {
    return multitaskv3_->run_8UC1(images);
  }

 private:
  std::unique_ptr<MultiTaskv3> multitaskv3_;
};

class MultiTaskv38UC3 {
 public:
  static std::unique_ptr<MultiTaskv38UC3> create(const std::string& model_name,
                                               bool need_preprocess = true);
  explicit MultiTaskv38UC3(std::unique_ptr<MultiTaskv3> multitaskv3)
      : multitaskv3_(std::move(multitaskv3)) {}
  int getInputWidth() const { return multitaskv3_->getInputWidth(); }
  int getInputHeight() const { return multitaskv3_->getInputHeight(); }
  std::size_t get_input_batch() const { return multitaskv3_->get_input_batch(); }
  MultiTaskv3Result run(const cv::Mat& image) { return multitaskv3_->run_8UC3(image); }
  std::vector<MultiTaskv3Result> run(const std::vector<cv::Mat>& images) {
    return multitaskv3_->run_8UC3(images);
  }

 private:
  std::unique_ptr<MultiTaskv3> multitaskv3_;
};

}  // namespace ai
}  // namespace vitis
