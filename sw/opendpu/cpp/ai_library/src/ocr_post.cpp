// SPDX-License-Identifier: Apache-2.0
// OCR's words: pixels of text that are linked, a box around them, and the letters in it.
#include "vitis/ai/nnpp/ocr.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <opencv2/imgproc.hpp>
#include <stdexcept>

#include "letters.hpp"
#include "outputs.hpp"

namespace vitis {
namespace ai {
namespace {

using library::InputTensor;
using library::OutputTensor;
using opendpu::tasks::TextMaps;

constexpr float kText = 0.5f, kLink = 0.2f;  // of a pixel
constexpr float kLeastText = 0.85f;          // of a word's strongest pixel
constexpr int kLeastPixels = 10;
constexpr int kStride = 4;  // pixels of the input for one of the maps
constexpr std::size_t kSigns = 37;
constexpr float kSquare = 0.1f;  // boxes this much longer than wide are not turned

float logit(float probability) { return -std::log(1 / probability - 1); }

// Corners of a box around pixels, clockwise from the one that is nearest to the top left.
std::vector<cv::Point2f> corners_around(const std::vector<cv::Point>& pixels) {
  const auto turned = cv::minAreaRect(pixels);
  std::vector<cv::Point2f> corners(4);
  turned.points(corners.data());
  const auto longer = static_cast<float>(std::max(cv::norm(corners[1] - corners[2]), cv::norm(corners[2] - corners[3])));
  const auto shorter = static_cast<float>(std::min(cv::norm(corners[1] - corners[2]), cv::norm(corners[2] - corners[3])));
  if (std::abs(1 - longer / (shorter + 0.00005f)) <= kSquare) {
    const auto box = cv::boundingRect(pixels);
    const cv::Point2f first = box.tl(), last = box.br() - cv::Point(1, 1);
    corners = {first, {last.x, first.y}, last, {first.x, last.y}};
  }
  const auto top = std::min_element(corners.begin(), corners.end(), [](const auto& a, const auto& b) {
    return a.x + a.y < b.x + b.y;
  });
  std::rotate(corners.begin(), top, corners.end());
  return corners;
}

class Post : public OCRPost {
 public:
  Post(const InputTensor& input, const std::vector<OutputTensor>& outputs,
       const std::string& words, int& number, const std::vector<int>& heights,
       const std::vector<int>& widths, const std::vector<float>& ratioh,
       const std::vector<float>& ratiow, const std::vector<cv::Mat>& images)
      : input_(input), lexicon_(words), number_(number), heights_(heights), widths_(widths),
        ratioh_(ratioh), ratiow_(ratiow), images_(images) {
    if (outputs.size() >= 2) {
      const bool signs_first = outputs[0].channel > outputs[1].channel;
      text_ = outputs[signs_first ? 1 : 0];
      signs_ = outputs[signs_first ? 0 : 1];
    }
    if (text_.channel != 2 || signs_.channel != kSigns || signs_.height != 2 * text_.height ||
        signs_.width != 2 * text_.width) {
      throw std::runtime_error(
          "OCR needs an output of two channels, text and links, and one of 37 channels, signs, with "
          "twice as many rows and columns");
    }
  }

  OCRResult process(int idx) override {
    const auto sample = static_cast<std::size_t>(idx);
    OCRResult result;
    result.width = static_cast<int>(input_.width);
    result.height = static_cast<int>(input_.height);
    cv::Mat links;
    const auto maps = read(sample, links);
    const cv::Mat text = maps.text > logit(kText);
    const cv::Mat linked = links > logit(kLink);
    const cv::Mat both = text | linked;
    cv::Mat owner, stats, centres;
    const int groups = cv::connectedComponentsWithStats(both, owner, stats, centres, 4);
    for (int group = 1; group < groups; ++group) {
      const cv::Mat mine = owner == group;
      double strongest = 0;
      cv::minMaxLoc(maps.text, nullptr, &strongest, nullptr, nullptr, mine);
      if (stats.at<int>(group, cv::CC_STAT_AREA) < kLeastPixels || strongest < logit(kLeastText)) {
        continue;
      }
      const auto corners = corners_around(grown(mine & text, stats.row(group)));
      if (corners.empty()) continue;
      cv::Mat mask(maps.text.size(), CV_8UC1, cv::Scalar(0));
      std::vector<cv::Point> polygon;
      for (const auto& corner : corners) {
        polygon.emplace_back(static_cast<int>(corner.x), static_cast<int>(corner.y));
      }
      cv::fillPoly(mask, std::vector<std::vector<cv::Point>>{polygon}, cv::Scalar(255));
      const auto read_word = opendpu::tasks::word_in(maps, mask);
      const auto word = read_word.empty() ? read_word : lexicon_.corrected(read_word);
      if (word.empty()) continue;
      result.words.push_back(word);
      result.box.push_back(in_image(corners, sample));
    }
    return result;
  }
  std::vector<OCRResult> process() override {
    std::vector<OCRResult> made;
    for (int i = 0; i < number_; ++i) made.push_back(process(i));
    return made;
  }

 private:
  // As much of the outputs as the image fills; of signs every other pixel.
  TextMaps read(std::size_t sample, cv::Mat& links) const {
    const int rows = heights_.at(sample) / kStride, columns = widths_.at(sample) / kStride;
    const auto text = opendpu::tasks::values(text_, sample);
    const auto signs = opendpu::tasks::values(signs_, sample);
    TextMaps maps{cv::Mat(rows, columns, CV_32FC1), images_.at(sample),
                  cv::Mat(rows, columns, CV_MAKETYPE(CV_32F, static_cast<int>(kSigns)))};
    links.create(rows, columns, CV_32FC1);
    for (int row = 0; row < rows; ++row) {
      for (int column = 0; column < columns; ++column) {
        const auto y = static_cast<std::size_t>(row), x = static_cast<std::size_t>(column);
        const auto* pair = &text[(y * text_.width + x) * 2];
        maps.text.at<float>(row, column) = pair[0];
        links.at<float>(row, column) = pair[1];
        auto* target = maps.signs.ptr<float>(row, column);
        std::copy_n(&signs[(2 * y * signs_.width + 2 * x) * kSigns], kSigns, target);
        opendpu::tasks::softmax(target, kSigns);
      }
    }
    return maps;
  }

  // Pixels of a word, and those around them: the more, the less of its rectangle it fills.
  static std::vector<cv::Point> grown(const cv::Mat& pixels, const cv::Mat& stats) {
    const int left = stats.at<int>(cv::CC_STAT_LEFT), top = stats.at<int>(cv::CC_STAT_TOP);
    const int width = stats.at<int>(cv::CC_STAT_WIDTH), height = stats.at<int>(cv::CC_STAT_HEIGHT);
    const double area = stats.at<int>(cv::CC_STAT_AREA);
    const int more = static_cast<int>(
        std::sqrt(area * std::min(width, height) / (static_cast<double>(width) * height)) * 2);
    const cv::Rect around =
        cv::Rect(left - more, top - more, width + 2 * more + 1, height + 2 * more + 1) &
        cv::Rect({0, 0}, pixels.size());
    cv::Mat made;
    cv::dilate(pixels(around), made,
               cv::getStructuringElement(cv::MORPH_RECT, cv::Size(1 + more, 1 + more)));
    std::vector<cv::Point> points;
    cv::findNonZero(made, points);
    for (auto& point : points) point += around.tl();
    return points;
  }

  std::vector<cv::Point> in_image(const std::vector<cv::Point2f>& corners,
                                  std::size_t sample) const {
    std::vector<cv::Point> made;
    for (const auto& corner : corners) {
      made.emplace_back(static_cast<int>(corner.x * ratiow_.at(sample) * kStride),
                        static_cast<int>(corner.y * ratioh_.at(sample) * kStride));
    }
    return made;
  }

  InputTensor input_;
  OutputTensor text_, signs_;
  opendpu::tasks::Lexicon lexicon_;
  int& number_;
  const std::vector<int>&heights_, &widths_;
  const std::vector<float>&ratioh_, &ratiow_;
  const std::vector<cv::Mat>& images_;
};

}  // namespace

std::unique_ptr<OCRPost> OCRPost::create(const std::vector<InputTensor>& input_tensors,
                                         const std::vector<OutputTensor>& output_tensors,
                                         const std::string& cfgpath, int, int& real_batch_size,
                                         std::vector<int>& target_h8, std::vector<int>& target_w8,
                                         std::vector<float>& ratioh, std::vector<float>& ratiow,
                                         std::vector<cv::Mat>& oriimg) {
  return std::make_unique<Post>(input_tensors.at(0), output_tensors, cfgpath, real_batch_size,
                                target_h8, target_w8, ratioh, ratiow, oriimg);
}

}  // namespace ai
}  // namespace vitis
