// SPDX-License-Identifier: Apache-2.0
// Monodepth2: images in, how near things are out.
#include "vitis/ai/monodepth2.hpp"

#include "one_by_one.hpp"
#include "outputs.hpp"

namespace vitis {
namespace ai {
namespace {

// One over the distance is from 1 / 100 to 1 / 0.1.
constexpr float kFarthest = 0.01f;
constexpr float kNearest = 10.f - kFarthest;

class Monodepth2Imp : public Monodepth2 {
 public:
  using Monodepth2::Monodepth2;

  Monodepth2Result run(const cv::Mat& image) override {
    auto& task = *configurable_dpu_task_;
    task.setInputImageRGB(opendpu::tasks::resized(image, getInputWidth(), getInputHeight()));
    task.run(0);
    const auto output = opendpu::tasks::single_channel(task.getOutputTensor()[0]);
    auto nearness = opendpu::tasks::values(output, 0);
    for (auto& value : nearness) value = kNearest * value + kFarthest;
    const cv::Mat made(static_cast<int>(output.height), static_cast<int>(output.width), CV_32FC1,
                       nearness.data());
    return {getInputWidth(), getInputHeight(), made.clone()};
  }
  std::vector<Monodepth2Result> run(const std::vector<cv::Mat>& images) override {
    return opendpu::tasks::one_by_one(images, [this](const cv::Mat& image) { return run(image); });
  }
};

}  // namespace

std::unique_ptr<Monodepth2> Monodepth2::create(const std::string& model_name,
                                               bool need_preprocess) {
  return create(model_name, nullptr, need_preprocess);
}

std::unique_ptr<Monodepth2> Monodepth2::create(const std::string& model_name, xir::Attrs* attrs,
                                               bool need_preprocess) {
  return std::make_unique<Monodepth2Imp>(model_name, attrs, need_preprocess);
}

}  // namespace ai
}  // namespace vitis
