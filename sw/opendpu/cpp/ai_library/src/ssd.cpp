// SPDX-License-Identifier: Apache-2.0
// SSD: images in, boxes out.
#include "vitis/ai/ssd.hpp"

#include "outputs.hpp"
#include "with_buffers.hpp"

namespace vitis {
namespace ai {
namespace {

class SSDImp : public opendpu::tasks::WithBuffers<SSD, SSDResult> {
 public:
  SSDImp(const std::string& name, xir::Attrs* attrs, bool need_preprocess)
      : WithBuffers(name, attrs, need_preprocess),
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

 protected:
  SSDResult found() override {
    return post_->ssd_post_process(1).front();
  }

 private:
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
