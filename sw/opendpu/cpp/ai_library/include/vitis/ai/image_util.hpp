// SPDX-License-Identifier: Apache-2.0
// Pixels normalized by programs that write a task's input themselves.
#pragma once

#include <cstdint>
#include <opencv2/core.hpp>
#include <vector>

namespace vitis {
namespace ai {

// Of 8-bit pixels (pixel - mean) * scale, as elements of an input: channels last and without gaps,
// toward zero and wrapping (XLNX_ENABLE_ROUND_SETINPUT=1: to the nearest and clamped). Rows of the
// input are `stride` bytes apart. Means and scales are those of its channels, which must be as many:
// otherwise std::invalid_argument.
void NormalizeInputData(const std::uint8_t* input, int rows, int cols, int channels, int stride,
                        const std::vector<float>& mean, const std::vector<float>& scale,
                        std::int8_t* data);
void NormalizeInputData(const cv::Mat& img, const std::vector<float>& mean,
                        const std::vector<float>& scale, std::int8_t* data);

// The same with the channels turned round: blue, green, red become red, green, blue.
void NormalizeInputDataRGB(const std::uint8_t* input, int rows, int cols, int channels, int stride,
                           const std::vector<float>& mean, const std::vector<float>& scale,
                           std::int8_t* data);
void NormalizeInputDataRGB(const cv::Mat& img, const std::vector<float>& mean,
                           const std::vector<float>& scale, std::int8_t* data);

}  // namespace ai
}  // namespace vitis
