// SPDX-License-Identifier: Apache-2.0
// OCR: images in, words out.
#include "vitis/ai/ocr.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <opencv2/imgproc.hpp>
#include <stdexcept>

#include "files.hpp"
#include "one_by_one.hpp"
#include "vitis/ai/configurable_dpu_task.hpp"

namespace vitis {
namespace ai {
namespace {

// Sides of images in the input, and how many of their pixels are one of the outputs.
constexpr int kMultiple = 32, kStride = 4;

int rounded_up(float length) {
  const int whole = static_cast<int>(length);
  return std::max(kMultiple, (whole + kMultiple - 1) / kMultiple * kMultiple);
}

std::string words_beside(const std::string& model) {
  const std::filesystem::path path(opendpu::tasks::find_model(model));
  return (path.parent_path() / (path.stem().string() + "_dict.txt")).string();
}

class OCRImp : public TConfigurableDpuTask<OCR> {
 public:
  OCRImp(const std::string& model_name, bool need_preprocess)
      : TConfigurableDpuTask<OCR>(model_name, need_preprocess),
        post_(OCRPost::create(configurable_dpu_task_->getInputTensor().at(0),
                              configurable_dpu_task_->getOutputTensor().at(0),
                              words_beside(model_name), 1, one_, height_, width_, ratioh_, ratiow_,
                              image_)) {
    const auto& config = configurable_dpu_task_->getConfig();
    if (config.kernel_size() < 1 || config.kernel(0).mean_size() < 3 ||
        config.kernel(0).scale_size() < 3) {
      throw std::runtime_error("the .prototxt has no kernel with mean and scale of three channels");
    }
  }

  OCRResult run(const cv::Mat& img) override {
    if (img.type() != CV_8UC3 || img.empty()) {
      throw std::invalid_argument("OCR takes images of three channels of 8 bits");
    }
    const float ratio =
        std::min(static_cast<float>(getInputWidth()) / static_cast<float>(img.cols),
                 static_cast<float>(getInputHeight()) / static_cast<float>(img.rows));
    const cv::Size size(
        std::min(getInputWidth(), rounded_up(static_cast<float>(img.cols) * ratio)),
        std::min(getInputHeight(), rounded_up(static_cast<float>(img.rows) * ratio)));
    cv::Mat fitted;
    cv::resize(img, fitted, size, 0, 0, cv::INTER_LINEAR);
    width_ = {size.width};
    height_ = {size.height};
    ratiow_ = {static_cast<float>(img.cols) / static_cast<float>(size.width)};
    ratioh_ = {static_cast<float>(img.rows) / static_cast<float>(size.height)};
    cv::resize(fitted, image_[0], size / kStride, 0, 0, cv::INTER_NEAREST);
    fill(fitted);
    configurable_dpu_task_->run(0);
    return post_->process(0);
  }
  std::vector<OCRResult> run(const std::vector<cv::Mat>& imgs) override {
    return opendpu::tasks::one_by_one(imgs, [this](const cv::Mat& img) { return run(img); });
  }

 private:
  // Red first, to the nearest element; what the image leaves is 0.
  void fill(const cv::Mat& image) {
    const auto input = configurable_dpu_task_->getInputTensor().at(0).at(0);
    const auto& kernel = configurable_dpu_task_->getConfig().kernel(0);
    const float step = library::tensor_scale(input);
    auto* elements = static_cast<std::int8_t*>(input.get_data(0));
    std::fill_n(elements, input.size / input.batch, std::int8_t{0});
    for (int row = 0; row < image.rows; ++row) {
      auto* element = elements + static_cast<std::size_t>(row) * input.width * 3;
      for (int column = 0; column < image.cols; ++column) {
        const auto& pixel = image.at<cv::Vec3b>(row, column);
        for (int c = 2; c >= 0; --c) {
          const float scale = kernel.scale(c) * step;
          const float value = std::round(pixel[c] * scale - kernel.mean(c) * scale);
          *element++ = static_cast<std::int8_t>(static_cast<int>(value));
        }
      }
    }
  }

  int one_ = 1;
  std::vector<int> height_{0}, width_{0};
  std::vector<float> ratioh_{1}, ratiow_{1};
  std::vector<cv::Mat> image_ = std::vector<cv::Mat>(1);
  std::unique_ptr<OCRPost> post_;
};

}  // namespace

std::unique_ptr<OCR> OCR::create(const std::string& model_name, bool need_preprocess) {
  return std::make_unique<OCRImp>(model_name, need_preprocess);
}

}  // namespace ai
}  // namespace vitis
