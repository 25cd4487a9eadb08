// SPDX-License-Identifier: Apache-2.0
// Boxes of PointPillars in photos and from above.
#pragma once

#include <opencv2/core.hpp>
#include <string>
#include <vector>

#include "vitis/ai/pointpillars.hpp"

namespace opendpu {
namespace tasks {

// In the camera's coordinates: x, y, z of the bottom's centre, length, height, width, angle.
vitis::ai::V2F in_camera(const vitis::ai::V2F& boxes, const vitis::ai::DISPLAY_PARAM& calibration);

// Edges of boxes into a photo, but of those that are behind the camera.
void draw_photo(cv::Mat& photo, const vitis::ai::V2F& in_camera, const vitis::ai::V1I& labels,
                const vitis::ai::DISPLAY_PARAM& calibration);

// Adds the objects within a photo of some size and within `limits` (x, y, z, thrice again).
void annotate(const vitis::ai::PPResult& result, const vitis::ai::V2F& in_camera,
              const vitis::ai::DISPLAY_PARAM& calibration, const std::vector<std::string>& names,
              const vitis::ai::V1F& limits, int width, int height, vitis::ai::ANNORET& annotations);

// Boxes of objects with a score into a view from above, which is then turned by 180 degrees.
void draw_view(cv::Mat& view, const vitis::ai::ANNORET& annotations, float least_score);

}  // namespace tasks
}  // namespace opendpu
