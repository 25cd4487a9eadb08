// SPDX-License-Identifier: Apache-2.0
// ARFlow: two images in, how pixels move out.
#include "vitis/ai/arflow.hpp"

#include <algorithm>
#include <stdexcept>

#include "outputs.hpp"

namespace vitis {
namespace ai {
namespace {

class ARFlowImp : public ARFlow {
 public:
  ARFlowImp(const std::string& model_name, bool need_preprocess)
      : ARFlow(model_name, need_preprocess), first_(input(0)), second_(input(1)) {}

  std::vector<library::OutputTensor> run(const cv::Mat& image_1, const cv::Mat& image_2) override {
    return run(std::vector<cv::Mat>{image_1}, std::vector<cv::Mat>{image_2});
  }

  std::vector<library::OutputTensor> run(const std::vector<cv::Mat>& image_1,
                                         const std::vector<cv::Mat>& image_2) override {
    if (image_1.size() != image_2.size()) {
      throw std::invalid_argument(std::to_string(image_1.size()) + " first images, but " +
                                  std::to_string(image_2.size()) + " second ones given");
    }
    auto& task = *configurable_dpu_task_;
    task.setInputImageRGB(fitted(image_1), first_);
    task.setInputImageRGB(fitted(image_2), second_);
    task.run(0);
    auto outputs = task.getOutputTensor().at(0);
    std::stable_sort(outputs.begin(), outputs.end(),
                     [](const auto& a, const auto& b) { return a.size > b.size; });
    return outputs;
  }

 private:
  // The input that a kernel of the .prototxt names.
  std::size_t input(int kernel) const {
    const auto& config = configurable_dpu_task_->getConfig();
    const auto tensors = configurable_dpu_task_->getInputTensor().at(0);
    if (config.kernel_size() < 2) {
      throw std::runtime_error("the .prototxt must have two kernels, which name the inputs");
    }
    const auto& name = config.kernel(kernel).name();
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if (tensors[i].name.find(name) != std::string::npos) return i;
    }
    throw std::runtime_error("kernel " + name + " of the .prototxt is in no input's name");
  }

  std::vector<cv::Mat> fitted(const std::vector<cv::Mat>& images) const {
    std::vector<cv::Mat> made;
    for (const auto& image : images) {
      made.push_back(opendpu::tasks::resized(image, getInputWidth(), getInputHeight()));
    }
    return made;
  }

  std::size_t first_, second_;
};

}  // namespace

std::unique_ptr<ARFlow> ARFlow::create(const std::string& model_name, bool need_preprocess) {
  return std::make_unique<ARFlowImp>(model_name, need_preprocess);
}

}  // namespace ai
}  // namespace vitis
