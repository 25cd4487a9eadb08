// SPDX-License-Identifier: Apache-2.0
// Letters of a word, and words that are known.
#pragma once

#include <opencv2/core.hpp>
#include <string>
#include <vector>

namespace opendpu {
namespace tasks {

// Maps of one size: how much text there is (before the sigmoid), the image, and the probability of
// each sign, none of them first, in every pixel.
struct TextMaps {
  cv::Mat text;    // CV_32FC1
  cv::Mat image;   // CV_8UC3
  cv::Mat signs;   // CV_32F, a channel a sign
};

// The word inside a mask, from left to right: its letters are where the text is strongest, and reach
// as far as watersheds between them. Empty for fewer than three.
std::string word_in(const TextMaps& maps, const cv::Mat& mask);

class Lexicon {
 public:
  // Throws std::runtime_error where the file cannot be read.
  explicit Lexicon(const std::string& path);
  // A word as it is if it is known or has a digit in it, else the first known one that differs by one
  // letter, those of its length first, then shorter ones; empty if there is none.
  std::string corrected(const std::string& word) const;

 private:
  const std::vector<std::string>& of_length(std::size_t length) const;

  std::vector<std::vector<std::string>> words_;  // by length
};

}  // namespace tasks
}  // namespace opendpu
