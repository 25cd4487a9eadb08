// SPDX-License-Identifier: Apache-2.0
// PolypSegmentation: images in, polyps out.
#include "vitis/ai/polypsegmentation.hpp"

#include <algorithm>
#include <cstdint>

#include "one_by_one.hpp"
#include "outputs.hpp"

namespace vitis {
namespace ai {
namespace {

class PolypSegmentationImp : public PolypSegmentation {
 public:
  using PolypSegmentation::PolypSegmentation;

  SegmentationResult run(const cv::Mat& image) override {
    auto& task = *configurable_dpu_task_;
    task.setInputImageRGB(opendpu::tasks::resized(image, getInputWidth(), getInputHeight()));
    task.run(0);
    const auto output = opendpu::tasks::single_channel(task.getOutputTensor()[0]);
    auto values = opendpu::tasks::values(output, 0);
    if (!opendpu::tasks::has_probabilities(output)) {
      std::transform(values.begin(), values.end(), values.begin(), opendpu::tasks::sigmoid);
    }
    cv::Mat made(static_cast<int>(output.height), static_cast<int>(output.width), CV_8UC1);
    std::transform(values.begin(), values.end(), made.data,
                   [](float value) {
                     return static_cast<std::uint8_t>(255.f * std::clamp(value, 0.f, 1.f));
                   });
    return {image.cols, image.rows, opendpu::tasks::resized(made, image.cols, image.rows)};
  }
  std::vector<SegmentationResult> run(const std::vector<cv::Mat>& images) override {
    return opendpu::tasks::one_by_one(images, [this](const cv::Mat& image) { return run(image); });
  }
};

}  // namespace

std::unique_ptr<PolypSegmentation> PolypSegmentation::create(const std::string& model_name,
                                                             bool need_preprocess) {
  return create(model_name, nullptr, need_preprocess);
}

std::unique_ptr<PolypSegmentation> PolypSegmentation::create(const std::string& model_name,
                                                             xir::Attrs* attrs,
                                                             bool need_preprocess) {
  return std::make_unique<PolypSegmentationImp>(model_name, attrs, need_preprocess);
}

}  // namespace ai
}  // namespace vitis
