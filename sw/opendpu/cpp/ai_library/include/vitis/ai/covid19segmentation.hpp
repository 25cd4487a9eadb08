// SPDX-License-Identifier: Apache-2.0
// Lungs with COVID-19 in images of computed tomography.
#pragma once

#include <memory>
#include <opencv2/core.hpp>
#include <string>
#include <vector>

#include "vitis/ai/configurable_dpu_task.hpp"
#include "vitis/ai/nnpp/segmentation.hpp"

namespace vitis {
namespace ai {

// The outputs are the two that output_tensor_name of platenum_param names: infected or not, and
// with what (1 consolidation, 2 ground-glass opacity).
class Covid19Segmentation : public ConfigurableDpuTaskBase {
 public:
  // See ConfigurableDpuTask.
  static std::unique_ptr<Covid19Segmentation> create(const std::string& model_name,
                                                     bool need_preprocess = true);
  static std::unique_ptr<Covid19Segmentation> create(const std::string& model_name,
                                                     xir::Attrs* attrs,
                                                     bool need_preprocess = true);

  // Images of any size, 8 bits a channel, in the order B, G, R. Classes, or their colours.
  virtual Covid19SegmentationResult run_8UC1(const cv::Mat& image) = 0;
  virtual std::vector<Covid19SegmentationResult> run_8UC1(const std::vector<cv::Mat>& images) = 0;
  virtual Covid19SegmentationResult run_8UC3(const cv::Mat& image) = 0;
  virtual std::vector<Covid19SegmentationResult> run_8UC3(const std::vector<cv::Mat>& images) = 0;

 protected:
  using ConfigurableDpuTaskBase::ConfigurableDpuTaskBase;
};

// The same with one way to run, for templates.
class Covid19Segmentation8UC1 {
 public:
  static std::unique_ptr<Covid19Segmentation8UC1> create(const std::string& model_name,
                                                         bool need_preprocess = true);
  explicit Covid19Segmentation8UC1(std::unique_ptr<Covid19Segmentation> segmentation)
      : segmentation_(std::move(segmentation)) {}
  int getInputWidth() const { return segmentation_->getInputWidth(); }
  int getInputHeight() const { return segmentation_->getInputHeight(); }
  std::size_t get_input_batch() const { return segmentation_->get_input_batch(); }
  Covid19SegmentationResult run(const cv::Mat& image) { return segmentation_->run_8UC1(image); }
  std::vector<Covid19SegmentationResult> run(const std::vector<cv::Mat>& images) {
    return segmentation_->run_8UC1(images);
  }

 private:
  std::unique_ptr<Covid19Segmentation> segmentation_;
};

class Covid19Segmentation8UC3 {
 public:
  static std::unique_ptr<Covid19Segmentation8UC3> create(const std::string& model_name,
                                                         bool need_preprocess = true);
  explicit Covid19Segmentation8UC3(std::unique_ptr<Covid19Segmentation> segmentation)
      : segmentation_(std::move(segmentation)) {}
  int getInputWidth() const { return segmentation_->getInputWidth(); }
  int getInputHeight() const { return segmentation_->getInputHeight(); }
  std::size_t get_input_batch() const { return segmentation_->get_input_batch(); }
  Covid19SegmentationResult run(const cv::Mat& image) { return segmentation_->run_8UC3(image); }
  std::vector<Covid19SegmentationResult> run(const std::vector<cv::Mat>& images) {
    return segmentation_->run_8UC3(images);
  }

 private:
  std::unique_ptr<Covid19Segmentation> segmentation_;
};

}  // namespace ai
}  // namespace vitis
