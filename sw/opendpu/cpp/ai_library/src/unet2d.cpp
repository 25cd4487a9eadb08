// SPDX-License-Identifier: Apache-2.0
// Unet2D: slices in, values of each pixel out.
#include "vitis/ai/unet2d.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "one_by_one.hpp"
#include "outputs.hpp"
#include "quantized.hpp"

namespace vitis {
namespace ai {
namespace {

class Unet2DImp : public Unet2D {
 public:
  using Unet2D::Unet2D;

  Unet2DResult run(float* img, int len) override {
    auto& task = *configurable_dpu_task_;
    fill(img, static_cast<std::size_t>(std::max(len, 0)), task.getInputTensor().at(0).at(0));
    task.run(0);
    return {getInputWidth(), getInputHeight(),
            opendpu::tasks::values(task.getOutputTensor().at(0).at(0), 0)};
  }
  Unet2DResult run(const std::vector<float>& img) override {
    return run(const_cast<float*>(img.data()), static_cast<int>(img.size()));
  }
  std::vector<Unet2DResult> run(const std::vector<float*>& imgs, int len) override {
    return opendpu::tasks::one_by_one(imgs, [&](float* img) { return run(img, len); });
  }
  std::vector<Unet2DResult> run(const std::vector<std::vector<float>>& imgs) override {
    return opendpu::tasks::one_by_one(imgs, [&](const std::vector<float>& img) { return run(img); });
  }

 private:
  static void fill(const float* img, std::size_t len, const library::InputTensor& input) {
    const auto edge = static_cast<std::size_t>(
        std::sqrt(static_cast<double>(len / input.channel)));
    if (edge < input.width || edge < input.height) {
      throw std::invalid_argument(
          std::to_string(len) + " values are a square of " + std::to_string(edge) + " with " +
          std::to_string(input.channel) + " channels, but the input is " +
          std::to_string(input.height) + "x" + std::to_string(input.width));
    }
    const float scale = tensor_scale(input);
    const auto margin = (edge - input.width) / 2;
    auto* elements = static_cast<std::int8_t*>(input.get_data(0));
    for (std::size_t row = 0; row < input.height; ++row) {
      const float* pixels = img + ((margin + row) * edge + margin) * input.channel;
      for (std::size_t i = 0; i < input.width * input.channel; ++i) {
        *elements++ = opendpu::tasks::quantized(pixels[i] * scale);
      }
    }
  }
};

}  // namespace

std::unique_ptr<Unet2D> Unet2D::create(const std::string& model_name, bool need_preprocess) {
  return std::make_unique<Unet2DImp>(model_name, need_preprocess);
}

}  // namespace ai
}  // namespace vitis
