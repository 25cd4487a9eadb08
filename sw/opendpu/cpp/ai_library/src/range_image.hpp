// SPDX-License-Identifier: Apache-2.0
// A laser scanner's points as an image of their directions, and classes of its pixels for them.
#pragma once

#include <cstddef>
#include <vector>

namespace opendpu {
namespace tasks {

struct RangeImage {
  int height;
  int width;
  std::vector<float> ranges;        // of points, in metres
  std::vector<std::size_t> pixels;  // of points
  std::vector<int> points;          // of pixels: the last one there, -1 for none
};

// `points` are rows of x, y, z: left to right is once around, from behind over the left side; the
// top is 3 degrees up, the bottom 25 down, where points outside are put, too.
RangeImage range_image(const std::vector<std::vector<float>>& points, int height, int width);

// For each point the class that most of its five nearest have, of 25 pixels around its own; those
// more than a metre away and class 0 do not count. This is what RangeNet++ does.
std::vector<int> classes_by_neighbours(const RangeImage& image, const std::vector<int>& classes,
                                       std::size_t number);

}  // namespace tasks
}  // namespace opendpu
