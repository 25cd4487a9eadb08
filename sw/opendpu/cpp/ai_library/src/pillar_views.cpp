// SPDX-License-Identifier: Apache-2.0
// Boxes of PointPillars in photos and from above.
#include "pillar_views.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <opencv2/imgproc.hpp>
#include <stdexcept>
#include <utility>

namespace vitis {
namespace ai {
namespace {

constexpr int kRows = 512, kColumns = 1024;
constexpr float kResolution = 40.f / 512;  // metres a pixel
constexpr float kFarthest = 80, kAside = 40, kUp = 3;

}  // namespace

// Of the points of a pixel the highest one counts; its height is in a scale of its own.
cv::Mat bev_preprocess(const V1F& PointCloud) {
  std::map<std::pair<int, int>, std::pair<const float*, int>> pixels;
  for (std::size_t i = 0; i + 3 < PointCloud.size(); i += 4) {
    const float* point = &PointCloud[i];
    if (!(point[0] >= 0 && point[0] <= kFarthest && std::abs(point[1]) <= kAside &&
          std::abs(point[2]) <= kUp)) {
      continue;
    }
    const int row = static_cast<int>(std::floor(point[0] / kResolution));
    const int column = static_cast<int>(std::floor(point[1] / kResolution)) + kColumns / 2;
    if (row >= kRows || column >= kColumns) continue;
    auto& [highest, count] = pixels[{row, column}];
    if (count++ == 0 || point[2] > highest[2]) highest = point;
  }
  cv::Mat view(kRows, kColumns, CV_8UC3, cv::Scalar(0, 0, 0));
  for (const auto& [place, found] : pixels) {
    const auto& [point, count] = found;
    const float height = point[2] / (255 / (2 * kUp)) + 255 / 2.f;
    const float density = 255 / std::log(64.f) * std::log(static_cast<float>(count));
    view.at<cv::Vec3b>(place.first, place.second) = {
        static_cast<std::uint8_t>(static_cast<int>(point[3] * 255)),
        static_cast<std::uint8_t>(std::abs(point[2]) > 0.0001f ? height : 0.f),
        static_cast<std::uint8_t>(std::min(255.f, density))};
  }
  return view;
}

}  // namespace ai
}  // namespace vitis

namespace opendpu {
namespace tasks {
namespace {

using vitis::ai::DISPLAY_PARAM;
using vitis::ai::V1F;
using vitis::ai::V1I;
using vitis::ai::V2F;

constexpr float kPi = 3.14159265f;
using Corners = std::array<std::array<float, 3>, 8>;

void check(const V2F& matrix, const char* name) {
  const bool good = matrix.size() == 4 &&
                    std::all_of(matrix.begin(), matrix.end(),
                                [](const V1F& row) { return row.size() == 4; });
  if (!good) throw std::invalid_argument(std::string(name) + " must be a matrix of 4 x 4");
}

std::array<float, 4> times(const V2F& matrix, const std::array<float, 4>& vector) {
  std::array<float, 4> made{};
  for (std::size_t i = 0; i < 4; ++i) {
    for (std::size_t k = 0; k < 4; ++k) made[i] += matrix[i][k] * vector[k];
  }
  return made;
}

cv::Scalar colour(int label) {
  static const std::array<cv::Scalar, 6> all = {
      cv::Scalar(0, 255, 255), cv::Scalar(255, 0, 255), cv::Scalar(255, 255, 0),
      cv::Scalar(0, 0, 255),   cv::Scalar(255, 0, 0),   cv::Scalar(0, 255, 0)};
  return all[static_cast<std::size_t>(label) % all.size()];
}

// Of a box in the camera's coordinates: four around the front, and the four behind them.
Corners corners_of(const V1F& box) {
  const float c = std::cos(box[6]), s = std::sin(box[6]);
  Corners made;
  for (std::size_t i = 0; i < made.size(); ++i) {
    const float x = (i % 4 == 0 || i % 4 == 3 ? 0.5f : -0.5f) * box[3];
    const float y = (i % 4 < 2 ? 0.f : -1.f) * box[4];
    const float z = (i < 4 ? 0.5f : -0.5f) * box[5];
    made[i] = {x * c + z * s + box[0], y + box[1], -x * s + z * c + box[2]};
  }
  return made;
}

}  // namespace

V2F in_camera(const V2F& boxes, const DISPLAY_PARAM& calibration) {
  check(calibration.rect, "rect");
  check(calibration.Trv2c, "Trv2c");
  V2F made;
  for (const auto& box : boxes) {
    const auto place = times(calibration.rect,
                             times(calibration.Trv2c, {box[0], box[1], box[2], 1}));
    made.push_back({place[0], place[1], place[2], box[4], box[5], box[3], box[6]});
  }
  return made;
}

void draw_photo(cv::Mat& photo, const V2F& in_camera, const V1I& labels,
                const DISPLAY_PARAM& calibration) {
  check(calibration.p2rect, "p2rect");
  for (std::size_t i = 0; i < in_camera.size(); ++i) {
    const auto corners = corners_of(in_camera[i]);
    const auto behind = [](const std::array<float, 3>& corner) { return corner[2] < 0; };
    if (std::any_of(corners.begin(), corners.end(), behind)) continue;
    std::array<cv::Point, 8> seen;
    std::transform(corners.begin(), corners.end(), seen.begin(), [&](const auto& corner) {
      const auto place = times(calibration.p2rect, {corner[0], corner[1], corner[2], 1});
      return cv::Point(static_cast<int>(place[0] / place[2]), static_cast<int>(place[1] / place[2]));
    });
    for (std::size_t k = 0; k < 4; ++k) {
      cv::line(photo, seen[k], seen[(k + 1) % 4], colour(labels[i]));
      cv::line(photo, seen[k + 4], seen[(k + 1) % 4 + 4], colour(labels[i]));
      cv::line(photo, seen[k], seen[k + 4], colour(labels[i]));
    }
  }
}

void annotate(const vitis::ai::PPResult& result, const V2F& in_camera,
              const DISPLAY_PARAM& calibration, const std::vector<std::string>& names,
              const V1F& limits, int width, int height, vitis::ai::ANNORET& annotations) {
  check(calibration.P2, "P2");
  for (std::size_t i = 0; i < in_camera.size(); ++i) {
    const auto& box = result.final_box_preds[i];
    const auto& seen = in_camera[i];
    // As the library has it: without the camera's own offset.
    float left = INFINITY, top = INFINITY, right = -INFINITY, bottom = -INFINITY;
    for (const auto& corner : corners_of(seen)) {
      const auto place = times(calibration.P2, {corner[0], corner[1], corner[2], 0});
      left = std::min(left, place[0] / place[2]);
      right = std::max(right, place[0] / place[2]);
      top = std::min(top, place[1] / place[2]);
      bottom = std::max(bottom, place[1] / place[2]);
    }
    const auto w = static_cast<float>(width), h = static_cast<float>(height);
    if (left > w || top > h || right < 0 || bottom < 0) continue;
    bool within = true;
    // The library holds sizes, and not places, against the upper limits.
    for (std::size_t k = 0; k < 3; ++k) {
      within = within && box[k] >= limits[k] && box[k + 3] <= limits[k + 3];
    }
    if (!within) continue;
    annotations.name.push_back(names.at(static_cast<std::size_t>(result.label_preds[i])));
    annotations.label.push_back(result.label_preds[i]);
    annotations.truncated.push_back(0);
    annotations.occluded.push_back(0);
    annotations.alpha.push_back(-std::atan2(-box[1], box[0]) + seen[6]);
    annotations.bbox.push_back({static_cast<int>(std::max(left, 0.f)),
                                static_cast<int>(std::max(top, 0.f)),
                                static_cast<int>(std::min(right, w)),
                                static_cast<int>(std::min(bottom, h))});
    annotations.dimensions.push_back({seen[4], seen[5], seen[3]});
    annotations.location.push_back({seen[0], seen[1], seen[2]});
    annotations.rotation_y.push_back(seen[6]);
    annotations.score.push_back(result.final_scores[i]);
    annotations.box3d_camera.push_back(seen);
    annotations.box3d_lidar.push_back(box);
  }
}

void draw_view(cv::Mat& view, const vitis::ai::ANNORET& annotations, float least_score) {
  using vitis::ai::kResolution;
  for (std::size_t i = 0; i < annotations.score.size(); ++i) {
    if (annotations.score[i] < least_score) continue;
    const auto& box = annotations.box3d_lidar[i];
    const auto whole = [](float metres) { return std::floor(metres / kResolution); };
    const float row = whole(box[0]), column = whole(box[1]) + vitis::ai::kColumns / 2;
    const float across = whole(box[4]), along = whole(box[3]);
    const float c = std::cos(-box[6] - kPi / 2), s = std::sin(-box[6] - kPi / 2);
    const auto at = [&](float x, float y) {
      x *= across;
      y *= along;
      return cv::Point(static_cast<int>(s * x + c * y + column), static_cast<int>(c * x - s * y + row));
    };
    const std::array<cv::Point, 4> corners = {at(0.5f, 0.5f), at(-0.5f, 0.5f), at(-0.5f, -0.5f),
                                              at(0.5f, -0.5f)};
    for (std::size_t k = 0; k < 4; ++k) {
      cv::line(view, corners[k], corners[(k + 1) % 4], colour(annotations.label[i]));
    }
    cv::line(view, at(0, 0), at(0.5f, 0), colour(annotations.label[i]));
  }
  cv::flip(view, view, -1);
}

}  // namespace tasks
}  // namespace opendpu
