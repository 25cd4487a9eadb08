// SPDX-License-Identifier: Apache-2.0
// TextMountain's lines: each is the middle of a line of text, and all pixels from where the way up
// leads there.
#include "vitis/ai/nnpp/textmountain.hpp"

#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "outputs.hpp"

namespace vitis {
namespace ai {
namespace {

using library::InputTensor;
using library::OutputTensor;

constexpr float kText = 0.6f, kMiddle = 0.6f;  // of a pixel
constexpr float kLeastMean = 0.75f;            // of a middle's pixels
constexpr int kLeastPixels = 6;
constexpr double kLeastSide = 5;  // pixels of the image
constexpr std::size_t kHeight = 2;  // the channel that says how near the middle is

class Mountains {
 public:
  Mountains(const OutputTensor& tensor, std::size_t sample)
      : rows_(static_cast<int>(tensor.height)), columns_(static_cast<int>(tensor.width)) {
    const auto values = opendpu::tasks::values(tensor, sample);
    for (auto at = values.begin(); at != values.end(); at += static_cast<std::ptrdiff_t>(tensor.channel)) {
      const float none = std::exp(at[0]), text = std::exp(at[1]);
      text_.push_back(text / (none + text));
      heights_.push_back(at[kHeight]);
    }
    cv::Mat middles(rows_, columns_, CV_8UC1);
    for (int i = 0; i < rows_ * columns_; ++i) {
      middles.data[i] = opendpu::tasks::sigmoid(heights_[at(i)]) > kMiddle ? 255 : 0;
    }
    number_ = cv::connectedComponents(middles, owner_, 4, CV_32S);
    rate();
    climb();
  }

  int number() const { return number_; }
  bool good(int line) const {
    return scores_[at(line)] > kLeastMean && pixels_[at(line)] >= kLeastPixels;
  }
  float score(int line) const { return scores_[at(line)]; }
  cv::RotatedRect box(int line) const {
    std::vector<cv::Point> points;
    for (int row = 0; row < rows_; ++row) {
      for (int column = 0; column < columns_; ++column) {
        if (owner_.at<int>(row, column) == line) points.emplace_back(column, row);
      }
    }
    return cv::minAreaRect(points);
  }

 private:
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }
  int& owner(int i) { return owner_.at<int>(i / columns_, i % columns_); }

  // How much text the middles have.
  void rate() {
    scores_.assign(at(number_), 0);
    pixels_.assign(at(number_), 0);
    for (int i = 0; i < rows_ * columns_; ++i) {
      scores_[at(owner(i))] += text_[at(i)];
      ++pixels_[at(owner(i))];
    }
    for (int line = 0; line < number_; ++line) {
      scores_[at(line)] /= static_cast<float>(std::max(pixels_[at(line)], 1));
    }
  }

  // The highest pixel around one, or itself.
  int above(int i) const {
    const int row = i / columns_, column = i % columns_;
    int best = -1;
    for (int y = std::max(row - 1, 0); y <= std::min(row + 1, rows_ - 1); ++y) {
      for (int x = std::max(column - 1, 0); x <= std::min(column + 1, columns_ - 1); ++x) {
        const int other = y * columns_ + x;
        if (best < 0 || heights_[at(other)] > heights_[at(best)]) best = other;
      }
    }
    return best;
  }

  // Pixels of text go to the middle that the way up leads to.
  void climb() {
    std::vector<bool> lost(at(rows_ * columns_), false);
    for (int start = 0; start < rows_ * columns_; ++start) {
      if (!(text_[at(start)] > kText) || owner(start) != 0) continue;
      int place = start;
      std::vector<int> way;
      std::vector<bool> walked(at(rows_ * columns_), false);
      while (owner(place) == 0 && !walked[at(place)] && !lost[at(place)] &&
             text_[at(place)] > kText) {
        walked[at(place)] = true;
        way.push_back(place);
        place = above(place);
      }
      if (owner(place) != 0) {
        owner(start) = owner(place);
      } else {
        for (const int i : way) lost[at(i)] = true;
      }
    }
  }

  int rows_, columns_, number_;
  std::vector<float> text_, heights_, scores_;
  std::vector<int> pixels_;
  cv::Mat owner_;  // 0: nobody
};

class Post : public TextMountainPost {
 public:
  Post(const InputTensor& input, const OutputTensor& output, int& number, float* scale_h,
       float* scale_w)
      : input_(input), output_(output), number_(number), scale_h_(scale_h), scale_w_(scale_w) {
    if (output_.channel <= kHeight) {
      throw std::runtime_error("output " + output_.name + " has " +
                               std::to_string(output_.channel) +
                               " channels, but TextMountain needs three at least");
    }
  }

  TextMountainResult process(int idx) override {
    TextMountainResult result;
    result.width = static_cast<int>(input_.width);
    result.height = static_cast<int>(input_.height);
    const Mountains mountains(output_, static_cast<std::size_t>(idx));
    for (int line = 1; line < mountains.number(); ++line) {
      if (!mountains.good(line)) continue;
      cv::Point2f corners[4];
      mountains.box(line).points(corners);
      arr4_point2d box;
      for (int i = 0; i < 4; ++i) {
        box[i] = {std::trunc(corners[i].x / scale_w_[idx]),
                  std::trunc(corners[i].y / scale_h_[idx])};
      }
      if (cv::norm(box[0] - box[1]) < kLeastSide || cv::norm(box[3] - box[0]) < kLeastSide) continue;
      result.res.emplace_back(box, mountains.score(line));
    }
    return result;
  }
  std::vector<TextMountainResult> process() override {
    std::vector<TextMountainResult> made;
    for (int i = 0; i < number_; ++i) made.push_back(process(i));
    return made;
  }

 private:
  InputTensor input_;
  OutputTensor output_;
  int& number_;
  float *scale_h_, *scale_w_;
};

}  // namespace

std::unique_ptr<TextMountainPost> TextMountainPost::create(
    const std::vector<InputTensor>& input_tensors, const std::vector<OutputTensor>& output_tensors,
    int, int& real_batch_size, float* scale_h, float* scale_w) {
  return std::make_unique<Post>(input_tensors.at(0), output_tensors.at(0), real_batch_size, scale_h,
                                scale_w);
}

}  // namespace ai
}  // namespace vitis
