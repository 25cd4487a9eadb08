// SPDX-License-Identifier: Apache-2.0
// C2D2_lite: clips in, numbers out.
#include "vitis/ai/c2d2_lite.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <stdexcept>

#include "one_by_one.hpp"
#include "outputs.hpp"
#include "vitis/ai/configurable_dpu_task.hpp"

namespace vitis {
namespace ai {
namespace {

class C2D2_liteImp : public C2D2_lite {
 public:
  C2D2_liteImp(const std::string& model_name0, const std::string& model_name1,
               bool need_preprocess)
      : image_(ConfigurableDpuTask::create(model_name0, need_preprocess)),
        clip_(ConfigurableDpuTask::create(model_name1, need_preprocess)),
        normalized_(need_preprocess) {}

  float run(const std::vector<cv::Mat>& image) override {
    const auto target = clip_->getInputTensor().at(0).at(0);
    const auto source = image_->getOutputTensor().at(0).at(0);
    const auto size = opendpu::tasks::elements(source);
    if (image.size() * size != target.size / target.batch) {
      throw std::invalid_argument("the clip has " + std::to_string(image.size()) +
                                  " images, each of which gives " + std::to_string(size) +
                                  " values, but input " + target.name + " takes " +
                                  std::to_string(target.size / target.batch));
    }
    auto* elements = static_cast<std::int8_t*>(target.get_data(0));
    for (const auto& frame : image) {
      fill(frame);
      image_->run(0);
      write(source, library::tensor_scale(target), elements);
      elements += size;
    }
    clip_->run(0);
    return opendpu::tasks::values(clip_->getOutputTensor().at(0).at(0), 0).at(0);
  }
  std::vector<float> run(const std::vector<std::vector<cv::Mat>>& images) override {
    return opendpu::tasks::one_by_one(
        images, [this](const std::vector<cv::Mat>& image) { return run(image); });
  }

  int getInputWidth() const override { return image_->getInputWidth(); }
  int getInputHeight() const override { return image_->getInputHeight(); }
  std::size_t get_input_batch() const override {
    return std::max(image_->get_input_batch(), clip_->get_input_batch());
  }

 private:
  // To the nearest, and wrapping where a value is too large.
  void fill(const cv::Mat& frame) {
    const auto input = image_->getInputTensor().at(0).at(0);
    if (frame.type() != CV_8UC1 || input.channel != 1) {
      throw std::invalid_argument("C2D2_lite takes images of one channel of 8 bits, but there are " +
                                  std::to_string(frame.channels()) + ", and input " + input.name +
                                  " has " + std::to_string(input.channel));
    }
    const auto fitted = opendpu::tasks::resized(frame, getInputWidth(), getInputHeight());
    float mean = 0, scale = 1;
    if (normalized_) {
      const auto& kernel = image_->getConfig().kernel(0);
      if (kernel.mean_size() < 1 || kernel.scale_size() < 1) {
        throw std::runtime_error("the .prototxt has no mean and scale of a channel");
      }
      mean = kernel.mean(0);
      scale = kernel.scale(0) * library::tensor_scale(input);
    }
    auto* elements = static_cast<std::int8_t*>(input.get_data(0));
    for (int row = 0; row < fitted.rows; ++row) {
      const auto* pixels = fitted.ptr<std::uint8_t>(row);
      elements = std::transform(pixels, pixels + fitted.cols, elements, [=](std::uint8_t pixel) {
        return static_cast<std::int8_t>(static_cast<int>(std::round((pixel - mean) * scale)));
      });
    }
  }

  // What one network gives as elements of the other: the same bytes where both have one scale, as
  // AMD's models have.
  static void write(const library::OutputTensor& source, float scale, std::int8_t* target) {
    const auto values = opendpu::tasks::values(source, 0);
    std::transform(values.begin(), values.end(), target, [scale](float value) {
      return static_cast<std::int8_t>(std::clamp(std::round(value * scale), -128.f, 127.f));
    });
  }

  std::unique_ptr<ConfigurableDpuTask> image_, clip_;
  bool normalized_;
};

}  // namespace

std::unique_ptr<C2D2_lite> C2D2_lite::create(const std::string& model_name0,
                                             const std::string& model_name1,
                                             bool need_preprocess) {
  return std::make_unique<C2D2_liteImp>(model_name0, model_name1, need_preprocess);
}

}  // namespace ai
}  // namespace vitis
