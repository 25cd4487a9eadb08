// SPDX-License-Identifier: Apache-2.0
// Non-maximum suppression.
#pragma once

#include <cstddef>
#include <vector>

namespace vitis {
namespace ai {

// Of boxes (centre x, centre y, width, height), the numbers of those that remain: by falling score,
// those with a score of at least `conf` whose intersection over union with every earlier one that
// remains is below `nms`. Of equal scores the first comes first. With an iou_type other than 0 the
// distance of centres counts against the overlap: IoU - (d^2 / c^2)^0.6, c the diagonal of what
// encloses both.
void applyNMS(const std::vector<std::vector<float>>& boxes, const std::vector<float>& scores,
              const float nms, const float conf, std::vector<std::size_t>& res,
              bool stable = false, int iou_type = 0);

}  // namespace ai
}  // namespace vitis
