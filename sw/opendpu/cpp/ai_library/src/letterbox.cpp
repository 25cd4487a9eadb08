// SPDX-License-Identifier: Apache-2.0
// Images fitted into a network's input with their proportions kept.
#include "letterbox.hpp"

#include <algorithm>
#include <cmath>
#include <opencv2/imgproc.hpp>
#include <stdexcept>

#include "outputs.hpp"

namespace opendpu {
namespace tasks {
namespace {

// The value of pixels beside an image.
constexpr int kGrey = 114;
// Half pixels go to the right and to the bottom.
constexpr float kLess = 0.1f;
// 640 - 634.
constexpr int kMargin = 6;

Centred with_border(const cv::Mat& inner, float scale, int width, int height) {
  const auto before = [](int space) {
    return static_cast<int>(std::round(static_cast<float>(space) / 2 - kLess));
  };
  const int left = before(width - inner.cols), top = before(height - inner.rows);
  cv::Mat made;
  cv::copyMakeBorder(inner, made, top, height - inner.rows - top, left, width - inner.cols - left,
                     cv::BORDER_CONSTANT, cv::Scalar::all(kGrey));
  return {made, scale, left, top};
}

}  // namespace

cv::Mat letterboxed(const cv::Mat& image, int width, int height, int fill) {
  const float ratio = std::min(static_cast<float>(width) / image.cols,
                               static_cast<float>(height) / image.rows);
  const int inner_width = std::max(1, static_cast<int>(image.cols * ratio));
  const int inner_height = std::max(1, static_cast<int>(image.rows * ratio));
  cv::Mat made(height, width, image.type(), cv::Scalar::all(fill));
  const cv::Rect middle((width - inner_width) / 2, (height - inner_height) / 2, inner_width,
                        inner_height);
  resized(image, inner_width, inner_height).copyTo(made(middle));
  return made;
}

Centred centred(const cv::Mat& image, int width, int height, bool enlarge) {
  if (image.empty()) throw std::invalid_argument("the image is empty");
  float scale = std::min(static_cast<float>(width) / static_cast<float>(image.cols),
                         static_cast<float>(height) / static_cast<float>(image.rows));
  if (!enlarge) scale = std::min(scale, 1.f);
  const auto size = [scale](int side) {
    return std::max(1, static_cast<int>(std::round(static_cast<float>(side) * scale)));
  };
  return with_border(resized(image, size(image.cols), size(image.rows)), scale, width, height);
}

Centred centred_with_margin(const cv::Mat& image, int width, int height) {
  if (image.empty()) throw std::invalid_argument("the image is empty");
  const int longer = std::max(width, height) - kMargin;
  const float scale = std::min({static_cast<float>(longer) / std::max(image.cols, image.rows),
                                static_cast<float>(width) / image.cols,
                                static_cast<float>(height) / image.rows});
  const cv::Size size(std::max(1, static_cast<int>(image.cols * scale)),
                      std::max(1, static_cast<int>(image.rows * scale)));
  cv::Mat inner = image;
  if (size != image.size()) {
    cv::resize(image, inner, size, 0, 0, scale < 1 ? cv::INTER_AREA : cv::INTER_LINEAR);
  }
  return with_border(inner, scale, width, height);
}

std::vector<std::int8_t> darknet_letterboxed(const cv::Mat& image, int width, int height,
                                             float scale) {
  int inner_width = width, inner_height = image.rows * width / image.cols;
  if (static_cast<float>(width) / image.cols >= static_cast<float>(height) / image.rows) {
    inner_height = height;
    inner_width = image.cols * height / image.rows;
  }
  cv::Mat floats;
  image.convertTo(floats, CV_32F, 1. / 256.);
  const auto inner = resized(floats, std::max(1, inner_width), std::max(1, inner_height));
  cv::Mat whole(height, width, CV_32FC3, cv::Scalar::all(0.5));
  inner.copyTo(whole(cv::Rect((width - inner.cols) / 2, (height - inner.rows) / 2, inner.cols,
                              inner.rows)));
  std::vector<std::int8_t> made;
  made.reserve(static_cast<std::size_t>(width) * height * 3);
  for (int row = 0; row < height; ++row) {
    for (int column = 0; column < width; ++column) {
      const auto pixel = whole.at<cv::Vec3f>(row, column);
      for (int c = 2; c >= 0; --c) {
        made.push_back(static_cast<std::int8_t>(std::min(127, static_cast<int>(pixel[c] * scale))));
      }
    }
  }
  return made;
}

}  // namespace tasks
}  // namespace opendpu
