// SPDX-License-Identifier: Apache-2.0
// Persons out of maps of joints and of limbs' directions (Cao et al., "Realtime Multi-Person 2D Pose
// Estimation using Part Affinity Fields").
#pragma once

#include <array>
#include <cstddef>
#include <opencv2/core.hpp>
#include <optional>
#include <utility>
#include <vector>

namespace opendpu {
namespace tasks {

// Head, neck; shoulder, elbow, wrist of both sides; hip, knee, ankle of both sides.
constexpr std::size_t kJoints = 14;

// From joint to joint, outward.
constexpr std::pair<std::size_t, std::size_t> kLimbs[] = {
    {0, 1}, {1, 2}, {2, 3}, {3, 4},  {1, 5},   {5, 6},  {6, 7},
    {1, 8}, {8, 9}, {9, 10}, {1, 11}, {11, 12}, {12, 13}};

// Of each joint its place, where it was found.
using Person = std::array<std::optional<cv::Point2f>, kJoints>;

// `joints` has a map of likelihoods for every joint, and may have more; `limbs` two for every limb:
// its direction's x and y. All are of one size, in whose pixels places are; `width` is that of the
// network's input.
std::vector<Person> persons(const std::vector<cv::Mat>& joints, const std::vector<cv::Mat>& limbs,
                            float width);

}  // namespace tasks
}  // namespace opendpu
