// SPDX-License-Identifier: Apache-2.0
// Faces as networks for features want them.
#include "face_alignment.hpp"

#include <algorithm>

namespace opendpu {
namespace tasks {
namespace {

constexpr float kMargin = 0.2f;
constexpr int kColumns = 16, kRows = 8;
const FacePoints kUpright{cv::Point2f(30.2946f, 51.6963f), cv::Point2f(65.5318f, 51.5014f),
                          cv::Point2f(48.0252f, 71.7366f), cv::Point2f(33.5493f, 92.3655f),
                          cv::Point2f(62.7299f, 92.2041f)};

// Begin and length of a part along one axis of `total` pixels.
std::pair<int, int> widened(int begin, int length, int total, int step) {
  const int margin = static_cast<int>(static_cast<float>(length) * kMargin);
  const int first = std::clamp(begin - margin, 0, total);
  const int last = std::clamp(begin + length + margin, 0, total);
  const int most = total / step;
  const int low = std::min(first / step, most);
  const int high = std::min((last + step - 1) / step, most);
  return {low * step, (high - low) * step};
}

// The similarity from upright points to `points`, in least squares: x' = ax + by + c,
// y' = -bx + ay + d. With `mirrored`, of points whose x has the other sign.
cv::Matx33d from_upright(const FacePoints& points, bool mirrored) {
  cv::Mat_<double> terms(10, 4), wanted(10, 1);
  for (int i = 0; i < 5; ++i) {
    const double x = mirrored ? -kUpright[i].x : kUpright[i].x, y = kUpright[i].y;
    const double rows[2][4] = {{x, y, 1, 0}, {y, -x, 0, 1}};
    for (int j = 0; j < 4; ++j) {
      terms(2 * i, j) = rows[0][j];
      terms(2 * i + 1, j) = rows[1][j];
    }
    wanted(2 * i, 0) = points[i].x;
    wanted(2 * i + 1, 0) = points[i].y;
  }
  cv::Mat_<double> found;
  cv::solve(terms, wanted, found, cv::DECOMP_SVD);
  const double a = found(0, 0), b = found(1, 0), c = found(2, 0), d = found(3, 0);
  return {a, b, c, -b, a, d, 0, 0, 1};
}

// The other way round, and how far from upright points it takes `points`.
std::pair<cv::Matx33d, double> to_upright(const FacePoints& points, bool mirrored) {
  cv::Matx33d there = from_upright(points, mirrored).inv(cv::DECOMP_SVD);
  if (mirrored) {
    for (int j = 0; j < 3; ++j) there(0, j) = -there(0, j);
  }
  double distance = 0;
  for (int i = 0; i < 5; ++i) {
    const auto at = there * cv::Vec3d(points[i].x, points[i].y, 1);
    const double dx = at[0] - kUpright[i].x, dy = at[1] - kUpright[i].y;
    distance += dx * dx + dy * dy;
  }
  return {there, distance};
}

}  // namespace

FacePart around_face(const cv::Rect& face, const cv::Size& image) {
  const auto [x, width] = widened(face.x, face.width, image.width, kColumns);
  const auto [y, height] = widened(face.y, face.height, image.height, kRows);
  const cv::Rect part(x, y, width, height);
  return {part, (face & part) - part.tl()};
}

cv::Mat alignment(const FacePoints& points) {
  const auto [turned, distance] = to_upright(points, false);
  const auto [mirrored, other] = to_upright(points, true);
  const auto& best = distance <= other ? turned : mirrored;
  return cv::Mat(best).rowRange(0, 2).clone();
}

}  // namespace tasks
}  // namespace opendpu
