// SPDX-License-Identifier: Apache-2.0
// Covid19Segmentation: images in, classes or colours of pixels out, of two outputs.
#include "vitis/ai/covid19segmentation.hpp"

#include <stdexcept>
#include <string>

#include "configured_image.hpp"
#include "one_by_one.hpp"
#include "outputs.hpp"

namespace vitis {
namespace ai {
namespace {

using opendpu::tasks::OutputTensor;

class Covid19SegmentationImp : public Covid19Segmentation {
 public:
  using Covid19Segmentation::Covid19Segmentation;

  Covid19SegmentationResult run_8UC1(const cv::Mat& image) override {
    const auto input = configurable_dpu_task_->getInputTensor()[0].at(0);
    return pictured(image, [&](const OutputTensor& output) {
      return segmentation_post_process_8UC1(input, output);
    });
  }
  Covid19SegmentationResult run_8UC3(const cv::Mat& image) override {
    const auto input = configurable_dpu_task_->getInputTensor()[0].at(0);
    return pictured(image, [&](const OutputTensor& output) {
      return segmentation_post_process_8UC3(input, output, configurable_dpu_task_->getConfig());
    });
  }
  std::vector<Covid19SegmentationResult> run_8UC1(const std::vector<cv::Mat>& images) override {
    return opendpu::tasks::one_by_one(images,
                                      [this](const cv::Mat& image) { return run_8UC1(image); });
  }
  std::vector<Covid19SegmentationResult> run_8UC3(const std::vector<cv::Mat>& images) override {
    return opendpu::tasks::one_by_one(images,
                                      [this](const cv::Mat& image) { return run_8UC3(image); });
  }

 private:
  template <typename Post>
  Covid19SegmentationResult pictured(const cv::Mat& image, Post post) {
    auto& task = *configurable_dpu_task_;
    const auto& names = task.getConfig().platenum_param().output_tensor_name();
    if (names.size() != 2) {
      throw std::runtime_error("platenum_param has " + std::to_string(names.size()) +
                               " output_tensor_name, but must have two");
    }
    opendpu::tasks::run_with(task, image);
    const auto outputs = opendpu::tasks::outputs_named(task.getOutputTensor()[0], names);
    return {getInputWidth(), getInputHeight(), post(outputs[0]).front().segmentation,
            post(outputs[1]).front().segmentation};
  }
};

}  // namespace

std::unique_ptr<Covid19Segmentation> Covid19Segmentation::create(const std::string& model_name,
                                                                 bool need_preprocess) {
  return create(model_name, nullptr, need_preprocess);
}

std::unique_ptr<Covid19Segmentation> Covid19Segmentation::create(const std::string& model_name,
                                                                 xir::Attrs* attrs,
                                                                 bool need_preprocess) {
  return std::make_unique<Covid19SegmentationImp>(model_name, attrs, need_preprocess);
}

std::unique_ptr<Covid19Segmentation8UC1> Covid19Segmentation8UC1::create(
    const std::string& model_name, bool need_preprocess) {
  return std::make_unique<Covid19Segmentation8UC1>(
      Covid19Segmentation::create(model_name, need_preprocess));
}

std::unique_ptr<Covid19Segmentation8UC3> Covid19Segmentation8UC3::create(
    const std::string& model_name, bool need_preprocess) {
  return std::make_unique<Covid19Segmentation8UC3>(
      Covid19Segmentation::create(model_name, need_preprocess));
}

}  // namespace ai
}  // namespace vitis
