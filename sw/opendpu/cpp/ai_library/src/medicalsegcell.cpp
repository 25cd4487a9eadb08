// SPDX-License-Identifier: Apache-2.0
// MedicalSegcell: images in, nuclei of cells out.
#include "vitis/ai/medicalsegcell.hpp"

#include <algorithm>

#include "one_by_one.hpp"
#include "outputs.hpp"

namespace vitis {
namespace ai {
namespace {

class MedicalSegcellImp : public MedicalSegcell {
 public:
  using MedicalSegcell::MedicalSegcell;

  MedicalSegcellResult run(const cv::Mat& image) override {
    auto& task = *configurable_dpu_task_;
    task.setInputImageRGB(opendpu::tasks::resized(image, getInputWidth(), getInputHeight()));
    task.run(0);
    const auto output = opendpu::tasks::single_channel(task.getOutputTensor()[0]);
    const auto values = opendpu::tasks::values(output, 0);
    const float threshold = opendpu::tasks::has_probabilities(output) ? 0.5f : 0.f;
    cv::Mat made(static_cast<int>(output.height), static_cast<int>(output.width), CV_8UC1);
    std::transform(values.begin(), values.end(), made.data,
                   [threshold](float value) { return value > threshold ? 255 : 0; });
    return {getInputWidth(), getInputHeight(), made};
  }
  std::vector<MedicalSegcellResult> run(const std::vector<cv::Mat>& images) override {
    return opendpu::tasks::one_by_one(images, [this](const cv::Mat& image) { return run(image); });
  }
};

}  // namespace

std::unique_ptr<MedicalSegcell> MedicalSegcell::create(const std::string& model_name,
                                                       bool need_preprocess) {
  return create(model_name, nullptr, need_preprocess);
}

std::unique_ptr<MedicalSegcell> MedicalSegcell::create(const std::string& model_name,
                                                       xir::Attrs* attrs,
                                                       bool need_preprocess) {
  return std::make_unique<MedicalSegcellImp>(model_name, attrs, need_preprocess);
}

}  // namespace ai
}  // namespace vitis
