// SPDX-License-Identifier: Apache-2.0
// Channels of outputs as pictures.
#include "planes.hpp"

#include <opencv2/imgproc.hpp>

namespace opendpu {
namespace tasks {

std::vector<cv::Mat> planes(const OutputTensor& tensor, std::size_t sample) {
  const auto rows = static_cast<int>(tensor.height), columns = static_cast<int>(tensor.width);
  auto reals = values(tensor, sample);
  std::vector<cv::Mat> made;
  for (std::size_t c = 0; c < tensor.channel; ++c) {
    cv::Mat plane(rows, columns, CV_32F);
    for (int row = 0; row < rows; ++row) {
      const float* source = &reals[static_cast<std::size_t>(row) * tensor.width * tensor.channel];
      float* target = plane.ptr<float>(row);
      for (int i = 0; i < columns; ++i) {
        target[i] = source[static_cast<std::size_t>(i) * tensor.channel + c];
      }
    }
    made.push_back(plane);
  }
  return made;
}

std::vector<cv::Mat> enlarged_planes(const OutputTensor& tensor, std::size_t sample, int times) {
  auto made = planes(tensor, sample);
  for (auto& plane : made) {
    cv::Mat larger;
    cv::resize(plane, larger, cv::Size(), times, times, cv::INTER_CUBIC);
    plane = larger;
  }
  return made;
}

}  // namespace tasks
}  // namespace opendpu
