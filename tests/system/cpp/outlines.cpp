// SPDX-License-Identifier: Apache-2.0
// What Solo finds in a picture: outlines MODEL PICTURE THRESHOLD TARGET, as its sample sorts it.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <opencv2/imgcodecs.hpp>
#include <stdexcept>
#include <vector>

#include "status.hpp"
#include "vitis/ai/solo.hpp"

namespace {

int run(char* argv[]) {
  const auto image = cv::imread(argv[2]);
  auto task = vitis::ai::Solo::create(argv[1]);
  auto result = task->run(image);
  const auto both = task->run(std::vector<cv::Mat>{image, image});
  if (both.size() != 2 || both[1].cate_scores.data != result.cate_scores.data) return 1;
  std::printf("%d %d %zu\n", result.width, result.height, result.cate_scores.size());

  const auto threshold = static_cast<float>(std::atof(argv[3]));
  auto seen = result.cate_scores.filter(threshold);
  auto masks = result.seg_masks.slice_dim0(seen, true);
  auto labels = result.cate_labels.bool_select(seen);
  auto scores = result.cate_scores.bool_select(seen);
  std::vector<int> pixels;
  for (std::size_t i = 0; i < masks.shape[0]; ++i) {
    auto mask = masks.slice({{i, i + 1}, {0, masks.shape[1]}, {0, masks.shape[2]}});
    pixels.push_back(mask.sum());
  }
  Ndarray<int> densities(pixels, {pixels.size()});
  auto order = densities.argsort(1);
  labels = labels.select(order);
  scores = scores.select(order);
  masks = masks.slice_dim0(order);
  std::ofstream file(argv[4], std::ios::binary);
  for (std::size_t i = 0; i < scores.size(); ++i) {
    std::printf("%d %.9g %d\n", labels[i], scores[i], densities.select(order)[i]);
  }
  for (const int value : masks.data) file.put(static_cast<char>(value));
  if (masks.shape != std::vector<std::size_t>{scores.size(), static_cast<std::size_t>(image.rows),
                                              static_cast<std::size_t>(image.cols)}) {
    return 2;
  }
  try {
    masks.slice({{0, 1}});
    return 4;
  } catch (const std::invalid_argument&) {
  }
  try {
    labels.reshape({labels.size() + 1});
    return 5;
  } catch (const std::invalid_argument&) {
  }
  return 0;
}

}  // namespace

int main(int, char* argv[]) {
  return status_of([&] { return run(argv); });
}
