// SPDX-License-Identifier: Apache-2.0
// The pictures that a file lists, for programs that measure how fast a model is.
#pragma once

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <opencv2/core.hpp>
#include <opencv2/imgcodecs.hpp>
#include <opencv2/imgproc.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace vitis {
namespace ai {

class ImageList {
 public:
  // One a line; names count from where the list is, or from the current folder. Lazy lists read a
  // picture each time that it is asked for. Throws std::runtime_error where one cannot be read.
  explicit ImageList(const std::string& filename, bool lazy = false) : lazy_(lazy) {
    std::ifstream file(filename);
    for (std::string line; std::getline(file, line);) {
      if (line.empty()) continue;
      const auto path = std::filesystem::path(filename).parent_path() / line;
      names_.push_back(std::filesystem::exists(path) ? path.string() : line);
      if (!lazy_) images_.push_back(read(names_.back()));
    }
  }
  ImageList(const ImageList&) = delete;
  ImageList& operator=(const ImageList&) = delete;
  virtual ~ImageList() = default;

  // They begin anew behind the last one; throws std::out_of_range where there are none.
  const cv::Mat operator[](long i) const {
    const auto number = place(i);
    return lazy_ ? fitted(read(names_[number])) : images_[number];
  }
  std::string getName(std::size_t i) const { return names_[place(static_cast<long>(i))]; }
  // Names with commas between them.
  std::string to_string() const {
    std::string all;
    for (const auto& name : names_) all += (all.empty() ? "" : ",") + name;
    return all;
  }
  bool empty() const { return names_.empty(); }
  std::size_t size() const { return names_.size(); }
  void resize_images(int width, int height) {
    size_ = cv::Size(width, height);
    for (auto& image : images_) image = fitted(image);
  }

 private:
  static cv::Mat read(const std::string& name) {
    auto image = cv::imread(name);
    if (image.empty()) throw std::runtime_error("cannot read image " + name);
    return image;
  }
  std::size_t place(long i) const {
    if (names_.empty()) throw std::out_of_range("there are no images in the list");
    return static_cast<std::size_t>(i) % names_.size();
  }
  cv::Mat fitted(const cv::Mat& image) const {
    if (size_.empty() || image.size() == size_) return image;
    cv::Mat made;
    cv::resize(image, made, size_);
    return made;
  }

  bool lazy_;
  std::vector<std::string> names_;
  std::vector<cv::Mat> images_;
  cv::Size size_;
};

}  // namespace ai
}  // namespace vitis
