// SPDX-License-Identifier: Apache-2.0
// Normalized pixels as elements of inputs.
#include "vitis/ai/image_util.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <stdexcept>
#include <string>

#include "quantized.hpp"
#include "switches.hpp"
#include "vitis/ai/env_config.hpp"

DEF_ENV_PARAM(XLNX_ENABLE_ROUND_SETINPUT, "0")

namespace opendpu {
namespace tasks {
namespace {

// 8-bit pixels, as programs hand them out.
struct Pixels {
  const std::uint8_t* first;
  int rows, columns, channels, stride;
};

Pixels pixels_of(const cv::Mat& image) {
  if (image.depth() != CV_8U) throw std::invalid_argument("the image's pixels have not 8 bits");
  return {image.data, image.rows, image.cols, image.channels(), static_cast<int>(image.step)};
}

void normalize(const Pixels& pixels, const std::vector<float>& mean,
               const std::vector<float>& scale, bool turned, std::int8_t* data) {
  const auto channels = static_cast<std::size_t>(pixels.channels);
  if (mean.size() < channels || scale.size() < channels) {
    throw std::invalid_argument("the image has " + std::to_string(channels) +
                                " channels, but there are " + std::to_string(mean.size()) +
                                " means and " + std::to_string(scale.size()) + " scales");
  }
  for (int row = 0; row < pixels.rows; ++row) {
    const auto* source = pixels.first + static_cast<std::ptrdiff_t>(row) * pixels.stride;
    for (int column = 0; column < pixels.columns; ++column) {
      for (std::size_t c = 0; c < channels; ++c, ++source) {
        data[turned ? channels - 1 - c : c] =
            quantized((static_cast<float>(*source) - mean[c]) * scale[c]);
      }
      data += channels;
    }
  }
}

}  // namespace

std::int8_t quantized(float value) {
  if (ENV_PARAM(XLNX_ENABLE_ROUND_SETINPUT) || GLOBAL_ENABLE_ROUND_SETINPUT) {
    return static_cast<std::int8_t>(std::clamp(std::round(value), -128.f, 127.f));
  }
  const auto whole = static_cast<std::int32_t>(std::clamp(value, -2147483648.f, 2147483520.f));
  return static_cast<std::int8_t>(whole);
}

}  // namespace tasks
}  // namespace opendpu

namespace vitis {
namespace ai {

void NormalizeInputData(const std::uint8_t* input, int rows, int cols, int channels, int stride,
                        const std::vector<float>& mean, const std::vector<float>& scale,
                        std::int8_t* data) {
  opendpu::tasks::normalize({input, rows, cols, channels, stride}, mean, scale, false, data);
}

void NormalizeInputData(const cv::Mat& img, const std::vector<float>& mean,
                        const std::vector<float>& scale, std::int8_t* data) {
  opendpu::tasks::normalize(opendpu::tasks::pixels_of(img), mean, scale, false, data);
}

void NormalizeInputDataRGB(const std::uint8_t* input, int rows, int cols, int channels, int stride,
                           const std::vector<float>& mean, const std::vector<float>& scale,
                           std::int8_t* data) {
  opendpu::tasks::normalize({input, rows, cols, channels, stride}, mean, scale, true, data);
}

void NormalizeInputDataRGB(const cv::Mat& img, const std::vector<float>& mean,
                           const std::vector<float>& scale, std::int8_t* data) {
  opendpu::tasks::normalize(opendpu::tasks::pixels_of(img), mean, scale, true, data);
}

}  // namespace ai
}  // namespace vitis
