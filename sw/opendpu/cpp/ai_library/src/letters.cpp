// SPDX-License-Identifier: Apache-2.0
// Letters of a word, and words that are known.
#include "letters.hpp"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <numeric>
#include <opencv2/imgproc.hpp>
#include <stdexcept>
#include <utility>

#include "outputs.hpp"

namespace opendpu {
namespace tasks {
namespace {

constexpr char kSigns[] = "_0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
constexpr std::size_t kLeastLetters = 3;
// Text around a letter, and in its middle: of the strongest in the word.
constexpr float kAround = 0.4f, kMiddle = 0.8f;

// Numbers what belongs to each letter, from 2; 1 is what is around the word.
int mark(const TextMaps& maps, const cv::Mat& mask, cv::Mat& markers) {
  cv::Mat text;
  cv::exp(-maps.text, text);
  text = 1 / (1 + text);
  const cv::Mat around = mask & (text > kAround);
  double strongest = 0;
  cv::minMaxLoc(text, nullptr, &strongest, nullptr, nullptr, around);
  const cv::Mat middles = mask & (text > strongest * kMiddle) & around;
  const int number = cv::connectedComponents(middles, markers, 4, CV_32S);
  markers += 1;
  markers.setTo(0, around & ~middles);
  cv::watershed(maps.image, markers);
  return number;
}

// The sign that is likeliest in some pixels, each as much as it has text.
std::size_t likeliest(const TextMaps& maps, const std::vector<cv::Point>& pixels) {
  const auto number = static_cast<std::size_t>(maps.signs.channels());
  std::vector<double> sums(number, 0);
  for (const auto& pixel : pixels) {
    const float text = sigmoid(maps.text.at<float>(pixel));
    const auto* signs = maps.signs.ptr<float>(pixel.y, pixel.x);
    for (std::size_t i = 0; i < number; ++i) sums[i] += signs[i] * text;
  }
  return static_cast<std::size_t>(std::max_element(sums.begin(), sums.end()) - sums.begin());
}

std::size_t edits(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t corner = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = corner + (a[i - 1] != b[j - 1]);
      corner = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row.back();
}

}  // namespace

std::string word_in(const TextMaps& maps, const cv::Mat& mask) {
  cv::Mat markers;
  const int number = mark(maps, mask, markers);
  std::vector<std::vector<cv::Point>> letters(static_cast<std::size_t>(number) + 1);
  for (int row = 0; row < markers.rows; ++row) {
    for (int column = 0; column < markers.cols; ++column) {
      const int marker = markers.at<int>(row, column);
      if (marker > 1) letters[static_cast<std::size_t>(marker)].emplace_back(column, row);
    }
  }
  std::vector<std::pair<float, char>> word;
  for (const auto& pixels : letters) {
    if (pixels.empty()) continue;
    const auto sign = likeliest(maps, pixels);
    if (sign != 0) word.emplace_back(cv::minAreaRect(pixels).center.x, kSigns[sign]);
  }
  if (static_cast<std::size_t>(number) <= kLeastLetters || word.size() < kLeastLetters) return "";
  std::stable_sort(word.begin(), word.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::string made;
  for (const auto& letter : word) made += letter.second;
  return made;
}

Lexicon::Lexicon(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("there is no file of words " + path);
  for (std::string word; std::getline(file, word);) {
    if (word.size() >= words_.size()) words_.resize(word.size() + 1);
    words_[word.size()].push_back(word);
  }
}

const std::vector<std::string>& Lexicon::of_length(std::size_t length) const {
  static const std::vector<std::string> none;
  return length < words_.size() ? words_[length] : none;
}

std::string Lexicon::corrected(const std::string& word) const {
  const auto digit = [](unsigned char sign) { return std::isdigit(sign) != 0; };
  if (std::any_of(word.begin(), word.end(), digit)) return word;
  std::string nearest;
  for (const std::size_t length : {word.size(), word.size() - 1, word.size() + 1}) {
    for (const auto& known : of_length(length)) {
      const auto distance = edits(word, known);
      if (distance == 0) return word;
      if (distance == 1 && nearest.empty()) nearest = known;
    }
  }
  return nearest;
}

}  // namespace tasks
}  // namespace opendpu
