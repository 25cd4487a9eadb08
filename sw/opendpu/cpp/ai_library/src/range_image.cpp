// SPDX-License-Identifier: Apache-2.0
#include "range_image.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace opendpu {
namespace tasks {
namespace {

constexpr double kPi = 3.14159265358979323846;
constexpr double kDown = 25 * kPi / 180, kWhole = 28 * kPi / 180;
constexpr int kReach = 2;  // pixels on each side
constexpr int kSide = 2 * kReach + 1, kAround = kSide * kSide;
constexpr int kNearest = 5;
constexpr float kMostDistance = 1;

// Pixels of a side of `length`; what is no number is the first.
int clamped(double value, int length) {
  if (!(value > 0)) return 0;
  return static_cast<int>(std::min(std::floor(value), static_cast<double>(length - 1)));
}

// What distances are multiplied by: less in the middle, by a normal distribution.
std::array<float, kAround> weights() {
  std::array<double, kAround> bell{};
  double sum = 0;
  for (int i = 0; i < kAround; ++i) {
    const int row = i / kSide - kReach, column = i % kSide - kReach;
    sum += bell[static_cast<std::size_t>(i)] = std::exp(-(row * row + column * column) / 2.0);
  }
  std::array<float, kAround> made{};
  std::transform(bell.begin(), bell.end(), made.begin(),
                 [sum](double value) { return static_cast<float>(1 - value / sum); });
  return made;
}

struct Neighbour {
  float distance;
  int kind;
};

// Beyond the image there are points of class 0 where the scanner is, as the authors have it.
Neighbour neighbour(const RangeImage& image, const std::vector<int>& classes, std::size_t point,
                    int row, int column, bool is_middle) {
  const float own = image.ranges[point];
  if (row < 0 || column < 0 || row >= image.height || column >= image.width) return {own, 0};
  const auto pixel = static_cast<std::size_t>(row * image.width + column);
  if (is_middle) return {0, classes[pixel]};
  const int there = image.points[pixel];
  if (there < 0) return {std::numeric_limits<float>::max(), 0};
  return {std::abs(image.ranges[static_cast<std::size_t>(there)] - own), classes[pixel]};
}

}  // namespace

RangeImage range_image(const std::vector<std::vector<float>>& points, int height, int width) {
  RangeImage image{height, width, {}, {}, {}};
  image.points.assign(static_cast<std::size_t>(height * width), -1);
  for (std::size_t i = 0; i < points[0].size(); ++i) {
    const float x = points[0][i], y = points[1][i], z = points[2][i];
    const float range = std::sqrt(x * x + y * y + z * z);
    const double up = std::asin(z / range), around = -std::atan2(y, x);
    const int row = clamped((1 - (up + kDown) / kWhole) * height, height);
    const int column = clamped(0.5 * (around / kPi + 1) * width, width);
    image.ranges.push_back(range);
    image.pixels.push_back(static_cast<std::size_t>(row * width + column));
    image.points[image.pixels.back()] = static_cast<int>(i);
  }
  return image;
}

std::vector<int> classes_by_neighbours(const RangeImage& image, const std::vector<int>& classes,
                                       std::size_t number) {
  static const auto factors = weights();
  std::vector<int> made;
  for (std::size_t point = 0; point < image.pixels.size(); ++point) {
    const auto pixel = static_cast<int>(image.pixels[point]);
    const int top = pixel / image.width - kReach, left = pixel % image.width - kReach;
    std::array<Neighbour, kAround> around;
    for (int i = 0; i < kAround; ++i) {
      auto& one = around[static_cast<std::size_t>(i)];
      one = neighbour(image, classes, point, top + i / kSide, left + i % kSide, i == kAround / 2);
      one.distance *= factors[static_cast<std::size_t>(i)];
    }
    std::stable_sort(around.begin(), around.end(),
                     [](const auto& a, const auto& b) { return a.distance < b.distance; });
    std::vector<int> votes(number, 0);
    for (int i = 0; i < kNearest; ++i) {
      const auto& one = around[static_cast<std::size_t>(i)];
      if (one.distance <= kMostDistance) ++votes[static_cast<std::size_t>(one.kind)];
    }
    made.push_back(static_cast<int>(std::max_element(votes.begin() + 1, votes.end()) - votes.begin()));
  }
  return made;
}

}  // namespace tasks
}  // namespace opendpu
