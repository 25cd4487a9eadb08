// SPDX-License-Identifier: Apache-2.0
// Many images or inputs one after the other: DPUs of this family take one at a time.
#pragma once

#include <vector>

#include "vart/zero_copy_helper.hpp"

namespace opendpu {
namespace tasks {

template <typename Image, typename Run>
auto one_by_one(const std::vector<Image>& images, Run run) {
  std::vector<decltype(run(images.front()))> made;
  made.reserve(images.size());
  for (const auto& image : images) made.push_back(run(image));
  return made;
}

// Inputs in memory from XRT; found() tells what is in the task's outputs.
template <typename Task, typename Found>
auto one_by_one(const std::vector<vart::xrt_bo_t>& bos, Task& task, Found found) {
  return one_by_one(bos, [&](const vart::xrt_bo_t& bo) {
    task.run_with_xrt_bo({bo});
    return found();
  });
}

}  // namespace tasks
}  // namespace opendpu
