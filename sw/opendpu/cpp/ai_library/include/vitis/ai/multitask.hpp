// SPDX-License-Identifier: Apache-2.0
// Vehicles and classes of pixels in images, by one network.
#pragma once

#include <memory>
#include <opencv2/core.hpp>
#include <string>
#include <vector>

#include "vitis/ai/configurable_dpu_task.hpp"
#include "vitis/ai/nnpp/multitask.hpp"

namespace vitis {
namespace ai {

class MultiTask : public ConfigurableDpuTaskBase {
 public:
  // See ConfigurableDpuTask.
  static std::unique_ptr<MultiTask> create(const std::string& model_name,
                                           bool need_preprocess = true);
  static std::unique_ptr<MultiTask> create(const std::string& model_name, xir::Attrs* attrs,
                                           bool need_preprocess = true);

  // Images of any size, 8 bits a channel, in the order B, G, R. Segmentation as
  // classes, or as their colours.
  virtual MultiTaskResult run_8UC1(const cv::Mat& image) = 0;
  virtual std::vector<MultiTaskResult> run_8UC1(const std::vector<cv::Mat>& images) = 0;
  virtual MultiTaskResult run_8UC3(const cv::Mat& image) = 0;
  virtual std::vector<MultiTaskResult> run_8UC3(const std::vector<cv::Mat>& images) = 0;

 protected:
  using ConfigurableDpuTaskBase::ConfigurableDpuTaskBase;
};

// The same with one way to run, for templates.
class MultiTask8UC1 {
 public:
  static std::unique_ptr<MultiTask8UC1> create(const std::string& model_name,
                                               bool need_preprocess = true);
  explicit MultiTask8UC1(std::unique_ptr<MultiTask> multitask)
      : multitask_(std::move(multitask)) {}
  int getInputWidth() const { return multitask_->getInputWidth(); }
  int getInputHeight() const { return multitask_->getInputHeight(); }
  std::size_t get_input_batch() const { return multitask_->get_input_batch(); }
  MultiTaskResult run(const cv::Mat& image) { return multitask_->run_8UC1(image); }
  std::vector<MultiTaskResult> run(const std::vector<cv::Mat>& images) {
    return multitask_->run_8UC1(images);
  }

 private:
  std::unique_ptr<MultiTask> multitask_;
};

class MultiTask8UC3 {
 public:
  static std::unique_ptr<MultiTask8UC3> create(const std::string& model_name,
                                               bool need_preprocess = true);
  explicit MultiTask8UC3(std::unique_ptr<MultiTask> multitask)
      : multitask_(std::move(multitask)) {}
  int getInputWidth() const { return multitask_->getInputWidth(); }
  int getInputHeight() const { return multitask_->getInputHeight(); }
  std::size_t get_input_batch() const { return multitask_->get_input_batch(); }
  MultiTaskResult run(const cv::Mat& image) { return multitask_->run_8UC3(image); }
  std::vector<MultiTaskResult> run(const std::vector<cv::Mat>& images) {
    return multitask_->run_8UC3(images);
  }

 private:
  std::unique_ptr<MultiTask> multitask_;
};

}  // namespace ai
}  // namespace vitis
