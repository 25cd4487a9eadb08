// SPDX-License-Identifier: Apache-2.0
// Faces as networks for features want them: upright, with eyes, nose and mouth in known places.
#pragma once

#include <array>
#include <opencv2/core.hpp>

namespace opendpu {
namespace tasks {

// Left and right eye, nose, left and right corner of the mouth.
using FacePoints = std::array<cv::Point2f, 5>;

// A part of an image with a face in it, and where in that part the face is.
struct FacePart {
  cv::Rect part;
  cv::Rect face;
};

// The part is a fifth of the face wider on each side, as far as the image goes, and begins and ends
// at multiples of 16 columns and 8 rows. Either is empty where nothing of the face is in it.
FacePart around_face(const cv::Rect& face, const cv::Size& image);

// What cv::warpAffine takes so that points come to where they are in an image of 96 x 112: turned,
// scaled, moved, and mirrored where that fits better (2 x 3, doubles).
cv::Mat alignment(const FacePoints& points);

}  // namespace tasks
}  // namespace opendpu
