// SPDX-License-Identifier: Apache-2.0
// PlateDetect: pictures of vehicles in, plates out.
#include "vitis/ai/platedetect.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>
#include <string>

#include "one_by_one.hpp"
#include "outputs.hpp"

namespace vitis {
namespace ai {
namespace {

using opendpu::tasks::OutputTensor;

// A cell's places, a side; and pixels of the input a place.
constexpr std::size_t kSide = 8, kPlaces = kSide * kSide;
constexpr std::size_t kStride = 4;

const OutputTensor& with_channels(const std::vector<OutputTensor>& outputs, std::size_t number) {
  for (const auto& output : outputs) {
    if (output.channel == number) return output;
  }
  throw std::runtime_error("no output has " + std::to_string(number) + " channels");
}

// The likeliest place: its cell, and its number there. Of equals the last number counts, and of a
// number the last cell.
std::pair<std::size_t, std::size_t> likeliest(const std::vector<float>& scores) {
  std::pair<std::size_t, std::size_t> best{0, 0};
  float highest = scores[kPlaces];
  for (std::size_t place = 0; place < kPlaces; ++place) {
    for (std::size_t cell = 0; cell < scores.size() / (2 * kPlaces); ++cell) {
      const float score = scores[cell * 2 * kPlaces + kPlaces + place];
      if (score < highest) continue;
      highest = score;
      best = {cell, place};
    }
  }
  return best;
}

class PlateDetectImp : public PlateDetect {
 public:
  using PlateDetect::PlateDetect;

  PlateDetectResult run(const cv::Mat& image) override {
    auto& task = *configurable_dpu_task_;
    task.setInputImageBGR(opendpu::tasks::resized(image, getInputWidth(), getInputHeight()));
    task.run(0);
    return plate_detect_post_process(task.getInputTensor(), task.getOutputTensor()).front();
  }
  std::vector<PlateDetectResult> run(const std::vector<cv::Mat>& images) override {
    return opendpu::tasks::one_by_one(images, [this](const cv::Mat& image) { return run(image); });
  }
};

}  // namespace

std::vector<PlateDetectResult> plate_detect_post_process(
    const std::vector<std::vector<library::InputTensor>>& input_tensors,
    const std::vector<std::vector<library::OutputTensor>>& output_tensors) {
  const auto& input = input_tensors.at(0).at(0);
  const float width = static_cast<float>(input.width), height = static_cast<float>(input.height);
  const auto& classes = with_channels(output_tensors.at(0), 2 * kPlaces);
  const auto& corners = with_channels(output_tensors.at(0), 8 * kPlaces);
  std::vector<PlateDetectResult> results;
  for (std::size_t sample = 0; sample < classes.batch; ++sample) {
    const auto scores = opendpu::tasks::values(classes, sample);
    const auto places = opendpu::tasks::values(corners, sample);
    const auto [cell, place] = likeliest(scores);
    // The library takes the whole part of this one.
    const float with = std::exp(std::trunc(scores[cell * 2 * kPlaces + kPlaces + place]));
    const float without = std::exp(scores[cell * 2 * kPlaces + place]);
    const auto row = kSide * (cell / classes.width) + place / kSide;
    const auto column = kSide * (cell % classes.width) + place % kSide;
    std::array<int, 4> x{}, y{};  // clockwise from the top left
    for (std::size_t i = 0; i < 4; ++i) {
      const float* corner = &places[cell * 8 * kPlaces + 2 * i * kPlaces + place];
      x[i] = static_cast<int>(static_cast<float>(kStride * column) + corner[0]);
      y[i] = static_cast<int>(static_cast<float>(kStride * row) + corner[kPlaces]);
    }
    const int left = std::min(x[0], x[3]), right = std::max(x[1], x[2]);
    const int top = std::min(y[0], y[1]), bottom = std::max(y[2], y[3]);
    const auto point = [&](std::size_t i) {
      return PlateDetectResult::Point{static_cast<float>(x[i]) / width,
                                      static_cast<float>(y[i]) / height};
    };
    results.push_back({static_cast<int>(input.width),
                       static_cast<int>(input.height),
                       {with / (with + without), static_cast<float>(left) / width,
                        static_cast<float>(top) / height, static_cast<float>(right - left) / width,
                        static_cast<float>(bottom - top) / height},
                       point(0), point(1), point(3), point(2)});
  }
  return results;
}

std::unique_ptr<PlateDetect> PlateDetect::create(const std::string& model_name,
                                                 bool need_preprocess) {
  return create(model_name, nullptr, need_preprocess);
}

std::unique_ptr<PlateDetect> PlateDetect::create(const std::string& model_name, xir::Attrs* attrs,
                                                 bool need_preprocess) {
  return std::make_unique<PlateDetectImp>(model_name, attrs, need_preprocess);
}

}  // namespace ai
}  // namespace vitis
