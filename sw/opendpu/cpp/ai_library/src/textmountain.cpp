// SPDX-License-Identifier: Apache-2.0
// TextMountain: images in, where text is out.
#include "vitis/ai/textmountain.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "one_by_one.hpp"
#include "vitis/ai/configurable_dpu_task.hpp"

namespace vitis {
namespace ai {
namespace {

// Sides of images in the input.
constexpr int kMultiple = 32;

int fitted(float length) {
  return std::max(kMultiple, static_cast<int>(std::round(length / kMultiple)) * kMultiple);
}

class TextMountainImp : public TConfigurableDpuTask<TextMountain> {
 public:
  TextMountainImp(const std::string& model_name, bool need_preprocess)
      : TConfigurableDpuTask<TextMountain>(model_name, need_preprocess),
        post_(TextMountainPost::create(configurable_dpu_task_->getInputTensor().at(0),
                                       configurable_dpu_task_->getOutputTensor().at(0), 1, one_,
                                       &scale_h_, &scale_w_)) {}

  TextMountainResult run(const cv::Mat& img) override {
    if (img.empty()) throw std::invalid_argument("the image has no pixels");
    const auto output = configurable_dpu_task_->getOutputTensor().at(0).at(0);
    const int width = getInputWidth(), height = getInputHeight();
    const float scale =
        static_cast<float>(width) / static_cast<float>(std::max(img.cols, img.rows));
    const cv::Size size(
        std::min(width, fitted(static_cast<float>(static_cast<int>(scale * static_cast<float>(img.cols))))),
        std::min(height, fitted(static_cast<float>(static_cast<int>(scale * static_cast<float>(img.rows))))));
    cv::Mat whole = cv::Mat::zeros(height, width, CV_8UC3);
    cv::resize(img, whole(cv::Rect({0, 0}, size)), size, 0, 0, cv::INTER_LINEAR);
    scale_w_ = static_cast<float>(size.width) * static_cast<float>(output.width) /
               (static_cast<float>(width) * static_cast<float>(img.cols));
    scale_h_ = static_cast<float>(size.height) * static_cast<float>(output.height) /
               (static_cast<float>(height) * static_cast<float>(img.rows));
    configurable_dpu_task_->setInputImageRGB(whole);
    configurable_dpu_task_->run(0);
    return post_->process(0);
  }
  std::vector<TextMountainResult> run(const std::vector<cv::Mat>& imgs) override {
    return opendpu::tasks::one_by_one(imgs, [this](const cv::Mat& img) { return run(img); });
  }

 private:
  int one_ = 1;
  float scale_h_ = 1, scale_w_ = 1;
  std::unique_ptr<TextMountainPost> post_;
};

}  // namespace

std::unique_ptr<TextMountain> TextMountain::create(const std::string& model_name,
                                                   bool need_preprocess) {
  return std::make_unique<TextMountainImp>(model_name, need_preprocess);
}

}  // namespace ai
}  // namespace vitis
