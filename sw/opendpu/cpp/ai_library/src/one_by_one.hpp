// SPDX-License-Identifier: Apache-2.0
// Many images one after the other: DPUs of this family take one at a time.
#pragma once

#include <vector>

namespace opendpu {
namespace tasks {

template <typename Run>
auto one_by_one(const std::vector<cv::Mat>& images, Run run) {
  std::vector<decltype(run(images.front()))> made;
  made.reserve(images.size());
  for (const auto& image : images) made.push_back(run(image));
  return made;
}

}  // namespace tasks
}  // namespace opendpu
