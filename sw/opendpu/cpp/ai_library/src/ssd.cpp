// SPDX-License-Identifier: Apache-2.0
// SSD: images in, boxes out.
#include "vitis/ai/ssd.hpp"

#include "one_by_one.hpp"
#include "outputs.hpp"

namespace vitis {
namespace ai {
namespace {

class SSDImp : public SSD {
 public:
  SSDImp(const std::string& name, xir::Attrs* attrs, bool need_preprocess)
      : SSD(name, attrs, need_preprocess),
        post_(SSDPostProcess::create(configurable_dpu_task_->getInputTensor()[0],
                                     configurable_dpu_task_->getOutputTensor()[0],
                                     configurable_dpu_task_->getConfig())) {}

  SSDResult run(const cv::Mat& image) override {
    auto& task = *configurable_dpu_task_;
    const auto fitted = opendpu::tasks::resized(image, getInputWidth(), getInputHeight());
    if (task.getConfig().is_tf()) {
      task.setInputImageRGB(fitted);
    } else {
      task.setInputImageBGR(fitted);
    }
    task.run(0);
    return found();
  }
  std::vector<SSDResult> run(const std::vector<cv::Mat>& images) override {
    return opendpu::tasks::one_by_one(images, [this](const cv::Mat& image) { return run(image); });
  }
  std::vector<SSDResult> run(const std::vector<vart::xrt_bo_t>& input_bos) override {
    return opendpu::tasks::one_by_one(input_bos, *configurable_dpu_task_,
                                      [this] { return found(); });
  }

 private:
  SSDResult found() {
    return post_->ssd_post_process(1).front();
  }

  std::unique_ptr<SSDPostProcess> post_;
};

}  // namespace

std::unique_ptr<SSD> SSD::create(const std::string& model_name, bool need_preprocess) {
  return create(model_name, nullptr, need_preprocess);
}

std::unique_ptr<SSD> SSD::create(const std::string& model_name, xir::Attrs* attrs,
                                 bool need_preprocess) {
  return std::make_unique<SSDImp>(model_name, attrs, need_preprocess);
}

}  // namespace ai
}  // namespace vitis
