// SPDX-License-Identifier: Apache-2.0
// RGBDsegmentation: an image and its depth in, classes of pixels out.
#include "vitis/ai/RGBDsegmentation.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <opencv2/imgproc.hpp>
#include <stdexcept>

#include "outputs.hpp"

namespace vitis {
namespace ai {
namespace {

// Of the input's side, from one piece to the next.
constexpr float kStride = 2.f / 3.f;

class RGBDsegmentationImp : public RGBDsegmentation {
 public:
  RGBDsegmentationImp(const std::string& model_name, bool need_preprocess)
      : RGBDsegmentation(model_name, need_preprocess) {
    const auto inputs = configurable_dpu_task_->getInputTensor().at(0);
    const auto output = configurable_dpu_task_->getOutputTensor().at(0).at(0);
    const auto& config = configurable_dpu_task_->getConfig();
    const auto like_first = [&](const auto& tensor) {
      return tensor.height == inputs[0].height && tensor.width == inputs[0].width;
    };
    if (inputs.size() != 2 || inputs[0].channel != 3 || inputs[1].channel != 3 ||
        inputs[0].height != inputs[0].width || !like_first(inputs[1]) || !like_first(output)) {
      throw std::runtime_error(
          "RGBDsegmentation needs a network of two square inputs of three channels, and an output "
          "of as many pixels");
    }
    if (config.kernel_size() < 1 || config.kernel(0).mean_size() < 3 ||
        config.kernel(0).scale_size() < 3) {
      throw std::runtime_error("the .prototxt has no kernel with mean and scale of three channels");
    }
  }

  SegmentationResult run(const cv::Mat& image_bgr, const cv::Mat& image_hha) override {
    if (image_bgr.type() != CV_8UC3 || image_hha.type() != CV_8UC3 ||
        image_bgr.size() != image_hha.size() || image_bgr.empty()) {
      throw std::invalid_argument(
          "an image and its depth must have three channels of 8 bits and one size");
    }
    const int side = getInputWidth();
    const cv::Point margin(std::max(side - image_bgr.cols, 0) / 2,
                           std::max(side - image_bgr.rows, 0) / 2);
    const auto image = padded(image_bgr, margin), depth = padded(image_hha, margin);
    const auto output = configurable_dpu_task_->getOutputTensor().at(0).at(0);
    std::vector<float> sums(image_bgr.total() * output.channel, 0);
    for (const int top : starts(image.rows)) {
      for (const int left : starts(image.cols)) {
        const cv::Rect piece(left, top, side, side);
        fill(image(piece), 0);
        fill(depth(piece), 1);
        configurable_dpu_task_->run(0);
        add(piece.tl() - margin, image_bgr.size(), sums);
      }
    }
    return {image_bgr.cols, image_bgr.rows, likeliest(sums, output.channel, image_bgr.size())};
  }

 private:
  cv::Mat padded(const cv::Mat& image, const cv::Point& margin) const {
    const int side = getInputWidth();
    cv::Mat made;
    cv::copyMakeBorder(image, made, margin.y, std::max(side - image.rows - margin.y, 0), margin.x,
                       std::max(side - image.cols - margin.x, 0), cv::BORDER_CONSTANT);
    return made;
  }

  // Where pieces begin along a side.
  std::vector<int> starts(int length) const {
    const int side = getInputWidth();
    const auto stride = static_cast<int>(std::ceil(static_cast<float>(side) * kStride));
    std::vector<int> made{0};
    while (made.back() + side < length) made.push_back(std::min(made.back() + stride, length - side));
    return made;
  }

  // Red first, to the nearest element.
  void fill(const cv::Mat& piece, std::size_t number) const {
    const auto tensor = configurable_dpu_task_->getInputTensor().at(0).at(number);
    const auto& kernel = configurable_dpu_task_->getConfig().kernel(0);
    const float step = library::tensor_scale(tensor);
    auto* element = static_cast<std::int8_t*>(tensor.get_data(0));
    for (int row = 0; row < piece.rows; ++row) {
      for (int column = 0; column < piece.cols; ++column) {
        const auto& pixel = piece.at<cv::Vec3b>(row, column);
        for (int c = 2; c >= 0; --c) {
          const float value = (pixel[c] - kernel.mean(c)) * (kernel.scale(c) * step);
          *element++ = static_cast<std::int8_t>(static_cast<int>(std::round(value)));
        }
      }
    }
  }

  // What the network says of a piece, to what others have said.
  void add(const cv::Point& place, const cv::Size& size, std::vector<float>& sums) const {
    const auto output = configurable_dpu_task_->getOutputTensor().at(0).at(0);
    const auto values = opendpu::tasks::values(output, 0);
    for (std::size_t i = 0; i < output.height * output.width; ++i) {
      const int row = place.y + static_cast<int>(i / output.width);
      const int column = place.x + static_cast<int>(i % output.width);
      if (row < 0 || column < 0 || row >= size.height || column >= size.width) continue;
      const auto target = static_cast<std::size_t>(row * size.width + column) * output.channel;
      for (std::size_t c = 0; c < output.channel; ++c) {
        sums[target + c] += values[i * output.channel + c];
      }
    }
  }

  static cv::Mat likeliest(const std::vector<float>& sums, std::size_t channels,
                           const cv::Size& size) {
    cv::Mat made(size, CV_8UC1);
    auto at = sums.begin();
    for (int row = 0; row < size.height; ++row) {
      for (int column = 0; column < size.width; ++column) {
        const auto end = at + static_cast<std::ptrdiff_t>(channels);
        made.at<std::uint8_t>(row, column) =
            static_cast<std::uint8_t>(std::max_element(at, end) - at);
        at = end;
      }
    }
    return made;
  }
};

}  // namespace

std::unique_ptr<RGBDsegmentation> RGBDsegmentation::create(const std::string& model_name,
                                                           bool need_preprocess) {
  return std::make_unique<RGBDsegmentationImp>(model_name, need_preprocess);
}

}  // namespace ai
}  // namespace vitis
