// SPDX-License-Identifier: Apache-2.0
// A road as a camera sees it, and from above.
#pragma once

#include <cstddef>
#include <vector>

#include "vitis/ai/proto/dpu_model_param.pb.h"

namespace opendpu {
namespace tasks {

class Ground {
 public:
  // Throws std::runtime_error where a parameter says nothing that can be.
  explicit Ground(const vitis::ai::proto::RoadlineParam& param);

  std::size_t width() const { return width_; }
  std::size_t height() const { return height_; }

  // Labels of pixels of the camera's image, row by row, as pixels of the road from above; both
  // have width() x height().
  std::vector<int> from_above(const std::vector<int>& labels) const;
  // The other way. Pixels that are not seen from above are 0; of several the last counts.
  std::vector<int> from_camera(const std::vector<int>& labels) const;

 private:
  std::size_t width_, height_;
  // For each pixel from above the one of the camera's image.
  std::vector<std::size_t> source_;
};

}  // namespace tasks
}  // namespace opendpu
