// SPDX-License-Identifier: Apache-2.0
// BCC: images of crowds in, numbers of persons out.
#include "vitis/ai/bcc.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <opencv2/imgproc.hpp>
#include <stdexcept>

#include "one_by_one.hpp"
#include "outputs.hpp"

namespace vitis {
namespace ai {
namespace {

// The network looks at the input in cells of so many pixels a side.
constexpr int kCell = 8;

int cells(int pixels) { return (pixels + kCell - 1) / kCell; }

class BCCImp : public BCC {
 public:
  BCCImp(const std::string& model_name, xir::Attrs* attrs, bool need_preprocess)
      : BCC(model_name, attrs, need_preprocess), normalized_(need_preprocess) {}

  BCCResult run(const cv::Mat& image) override {
    if (image.empty()) throw std::invalid_argument("the image is empty");
    auto& task = *configurable_dpu_task_;
    const auto size = size_of(image);
    if (normalized_) {
      fill(image, size);
    } else {
      task.setInputImageRGB(image);
    }
    task.run(0);
    const auto output = opendpu::tasks::single_channel(task.getOutputTensor()[0]);
    const auto density = opendpu::tasks::values(output, 0);
    const auto width = static_cast<int>(output.width);
    const int rows = std::min(cells(size.height), static_cast<int>(output.height));
    float count = 0;
    for (int row = 0; row < rows; ++row) {
      for (int column = 0; column < std::min(cells(size.width), width); ++column) {
        count += std::abs(density[static_cast<std::size_t>(row * width + column)]);
      }
    }
    return {getInputWidth(), getInputHeight(), static_cast<int>(count)};
  }
  std::vector<BCCResult> run(const std::vector<cv::Mat>& images) override {
    return opendpu::tasks::one_by_one(images, [this](const cv::Mat& image) { return run(image); });
  }

 private:
  // Of an image as large in the input as its proportions allow.
  cv::Size size_of(const cv::Mat& image) const {
    const int width = getInputWidth(), height = getInputHeight();
    const float ratio = static_cast<float>(image.rows) / static_cast<float>(image.cols);
    const auto whole = [](float value) { return std::max(1, static_cast<int>(value)); };
    if (ratio < static_cast<float>(height) / static_cast<float>(width)) {
      return {width, whole(static_cast<float>(width) * ratio)};
    }
    return {whole(static_cast<float>(height) / ratio), height};
  }

  // The image at the top left of the input; zeros beside it and below.
  void fill(const cv::Mat& image, const cv::Size& size) {
    auto& task = *configurable_dpu_task_;
    const auto input = task.getInputTensor()[0].at(0);
    const auto& kernel = task.getConfig().kernel(0);
    if (image.type() != CV_8UC3 || input.channel != 3 || kernel.mean_size() < 3 ||
        kernel.scale_size() < 3) {
      throw std::invalid_argument("BCC takes images, means and scales of three channels of 8 bits");
    }
    cv::Mat fitted;
    cv::resize(image, fitted, size, 0, 0, cv::INTER_LANCZOS4);
    std::vector<std::int8_t> elements(input.height * input.width * 3, 0);
    const float step = library::tensor_scale(input);
    for (int row = 0; row < fitted.rows; ++row) {
      const auto* pixels = fitted.ptr<cv::Vec3b>(row);
      auto* target = &elements[static_cast<std::size_t>(row) * input.width * 3];
      for (int column = 0; column < fitted.cols; ++column) {
        for (int c = 0; c < 3; ++c) {
          const float scale = kernel.scale(c) * step;
          const float value = std::round(pixels[column][c] * scale - kernel.mean(c) * scale);
          target[3 * column + 2 - c] = static_cast<std::int8_t>(static_cast<int>(value));
        }
      }
    }
    task.setInputDataArray(elements);
  }

  bool normalized_;
};

}  // namespace

std::unique_ptr<BCC> BCC::create(const std::string& model_name, bool need_preprocess) {
  return create(model_name, nullptr, need_preprocess);
}

std::unique_ptr<BCC> BCC::create(const std::string& model_name, xir::Attrs* attrs,
                                 bool need_preprocess) {
  return std::make_unique<BCCImp>(model_name, attrs, need_preprocess);
}

}  // namespace ai
}  // namespace vitis
