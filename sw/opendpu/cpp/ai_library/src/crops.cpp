// SPDX-License-Identifier: Apache-2.0
// How classifiers want images cropped and resized.
#include "crops.hpp"

#include <algorithm>
#include <cmath>
#include <opencv2/imgproc.hpp>
#include <stdexcept>

#include "outputs.hpp"

namespace opendpu {
namespace tasks {
namespace {

using vitis::ai::proto::ClassificationParam;

// Shares and sizes are those of the networks' own training.
constexpr float kShortOfVgg = 256.f, kShortOfInceptionPt = 299.f, kShortOfOfa = 183.f;
constexpr float kShareOfInception = 0.875f;
constexpr int kBorderOfEfficientNet = 32;

cv::Mat middle(const cv::Mat& image, int width, int height) {
  if (width > image.cols || height > image.rows) {
    throw std::invalid_argument("an image of " + std::to_string(image.rows) + "x" +
                                std::to_string(image.cols) + " has no middle of " +
                                std::to_string(height) + "x" + std::to_string(width));
  }
  return image(cv::Rect((image.cols - width) / 2, (image.rows - height) / 2, width, height));
}

// Its shorter side gets a length.
cv::Mat with_short_side(const cv::Mat& image, float length, bool up) {
  const float ratio = length / std::min(image.cols, image.rows);
  const auto whole = [&](int side) {
    return static_cast<int>(up ? std::ceil(side * ratio) : side * ratio);
  };
  cv::Mat made;
  cv::resize(image, made, cv::Size(whole(image.cols), whole(image.rows)));
  return made;
}

cv::Mat central(const cv::Mat& image, float share) {
  return middle(image, static_cast<int>(image.cols * share), static_cast<int>(image.rows * share));
}

cv::Mat efficient(const cv::Mat& image, int width, int height) {
  const float share = static_cast<float>(width) / (width + kBorderOfEfficientNet);
  const int side = static_cast<int>(std::min(image.cols, image.rows) * share);
  cv::Mat made;
  cv::resize(middle(image, side, side), made, cv::Size(width, height), 0, 0, cv::INTER_CUBIC);
  return made;
}

}  // namespace

cv::Mat cropped(const cv::Mat& image, const ClassificationParam& param, int width, int height) {
  if (image.cols == width && image.rows == height) return image;
  switch (param.preprocess_type()) {
    case ClassificationParam::DEFAULT:
      return resized(image, width, height);
    case ClassificationParam::CAFFE_PREPROCESS:
      return param.test_accuracy() ? middle(image, width, height) : resized(image, width, height);
    case ClassificationParam::VGG_PREPROCESS:
    case ClassificationParam::RESNET50_TF2_PREPROCESS:
      return middle(with_short_side(image, kShortOfVgg, false), width, height);
    case ClassificationParam::INCEPTION_PREPROCESS:
      return resized(central(image, kShareOfInception), width, height);
    case ClassificationParam::INCEPTION_PT_PREPROCESS:
      return middle(with_short_side(image, kShortOfInceptionPt, true), width, height);
    case ClassificationParam::EFFICIENTNET_PREPROCESS:
      return efficient(image, width, height);
    case ClassificationParam::OFA_RESNET50_PREPROCESS:
      return middle(with_short_side(image, kShortOfOfa, false), width, height);
    default:
      throw std::runtime_error("preprocess_type is " + std::to_string(param.preprocess_type()) +
                               ", but must be 0 to 7");
  }
}

bool is_rgb(const ClassificationParam& param) {
  switch (param.preprocess_type()) {
    case ClassificationParam::DEFAULT:
    case ClassificationParam::CAFFE_PREPROCESS:
    case ClassificationParam::RESNET50_TF2_PREPROCESS:
      return false;
    default:
      return true;
  }
}

}  // namespace tasks
}  // namespace opendpu
