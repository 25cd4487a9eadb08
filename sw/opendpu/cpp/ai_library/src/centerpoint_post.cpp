// SPDX-License-Identifier: Apache-2.0
// Objects out of the outputs of CenterPoint: where the map of centres is highest.
#include "vitis/ai/nnpp/centerpoint.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <opencv2/imgproc.hpp>
#include <stdexcept>
#include <string>

#include "outputs.hpp"

namespace vitis {
namespace ai {
namespace {

using opendpu::tasks::OutputTensor;

constexpr float kAhead = 80, kAside = 40, kLow = -6, kHigh = 8;  // metres
constexpr std::size_t kMostCandidates = 500, kMostBoxes = 83;
constexpr float kLeastScore = 0.1f, kMostOverlap = 0.2f;
constexpr float kDegrees = 57.29577951f;

struct Candidate {
  std::size_t cell;
  int label;
  float score;
};

const OutputTensor& head(const std::vector<OutputTensor>& outputs, const std::string& name,
                         std::size_t channels) {
  const auto& output = opendpu::tasks::output_named(outputs, name);
  const auto& centres = opendpu::tasks::output_named(outputs, "heatmap");
  if ((channels == 0 || output.channel == channels) && output.height == centres.height &&
      output.width == centres.width) {
    return output;
  }
  throw std::runtime_error("output " + output.name + " has " + std::to_string(output.height) + "x" +
                           std::to_string(output.width) + "x" + std::to_string(output.channel) +
                           " values, but must have " + std::to_string(channels) +
                           " for each cell of " + centres.name);
}

std::vector<Candidate> highest(const OutputTensor& centres, std::size_t sample) {
  const auto values = opendpu::tasks::values(centres, sample);
  std::vector<Candidate> all;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float score = opendpu::tasks::sigmoid(values[i]);
    if (!(score > kLeastScore)) continue;
    all.push_back({i / centres.channel, static_cast<int>(i % centres.channel), score});
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Candidate& a, const Candidate& b) { return a.score > b.score; });
  if (all.size() > kMostCandidates) all.resize(kMostCandidates);
  return all;
}

// From above. OpenCV turns the other way.
cv::RotatedRect seen(const std::vector<float>& box) {
  return {cv::Point2f(box[0], box[1]), cv::Size2f(box[3], box[4]), -box[6] * kDegrees};
}

float overlap(const std::vector<float>& a, const std::vector<float>& b) {
  std::vector<cv::Point2f> corners;
  if (cv::rotatedRectangleIntersection(seen(a), seen(b), corners) == cv::INTERSECT_NONE) return 0;
  std::vector<cv::Point2f> hull;
  cv::convexHull(corners, hull);
  const auto common = static_cast<float>(cv::contourArea(hull));
  return common / std::max(a[3] * a[4] + b[3] * b[4] - common, 1e-8f);
}

}  // namespace

std::vector<CenterPointResult> post_process(
    std::vector<std::vector<OutputTensor>> out_tensor, std::size_t batch_ind) {
  const auto& outputs = out_tensor.at(0);
  const auto& centres = head(outputs, "heatmap", 0);
  const auto read = [&](const std::string& name, std::size_t channels) {
    return opendpu::tasks::values(head(outputs, name, channels), batch_ind);
  };
  const auto moved = read("reg", 2), height = read("height", 1), sizes = read("dim", 3),
             angles = read("rot", 2);
  const float cell_x = kAhead / static_cast<float>(centres.width);
  const float cell_y = 2 * kAside / static_cast<float>(centres.height);
  std::vector<CenterPointResult> found;
  for (const auto& [cell, label, score] : highest(centres, batch_ind)) {
    const float x = (static_cast<float>(cell % centres.width) + moved[2 * cell]) * cell_x;
    const float y =
        (static_cast<float>(cell / centres.width) + moved[2 * cell + 1]) * cell_y - kAside;
    const float z = height[cell];
    if (x < 0 || x > kAhead || y < -kAside || y > kAside || z < kLow || z > kHigh) continue;
    std::vector<float> box{x, y, z};
    for (std::size_t i = 0; i < 3; ++i) box.push_back(std::exp(sizes[3 * cell + i]));
    box.push_back(std::atan2(angles[2 * cell], angles[2 * cell + 1]));
    const auto covers = [&](const CenterPointResult& other) {
      return overlap(box, other.bbox) >= kMostOverlap;
    };
    if (std::any_of(found.begin(), found.end(), covers)) continue;
    found.push_back({std::move(box), score, label});
    if (found.size() == kMostBoxes) break;
  }
  for (auto& result : found) result.bbox[2] -= result.bbox[5] / 2;
  return found;
}

}  // namespace ai
}  // namespace vitis
