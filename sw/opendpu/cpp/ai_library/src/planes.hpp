// SPDX-License-Identifier: Apache-2.0
// Channels of outputs as pictures.
#pragma once

#include <opencv2/core.hpp>
#include <vector>

#include "outputs.hpp"

namespace opendpu {
namespace tasks {

// Real values of every channel of a sample, each a matrix of floats.
std::vector<cv::Mat> planes(const OutputTensor& tensor, std::size_t sample);

// The same, so many times as large, with cubic interpolation.
std::vector<cv::Mat> enlarged_planes(const OutputTensor& tensor, std::size_t sample, int times);

}  // namespace tasks
}  // namespace opendpu
