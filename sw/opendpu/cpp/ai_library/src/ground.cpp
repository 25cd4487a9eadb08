// SPDX-License-Identifier: Apache-2.0
// A road as a camera sees it, and from above: a pinhole camera over a plane.
#include "ground.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

namespace opendpu {
namespace tasks {
namespace {

using vitis::ai::proto::RoadlineParam;

// More than any camera has; memory for more is not asked for.
constexpr float kMostPixels = 1 << 13;

struct Point {
  float x, y;
};

// x is to the right, y ahead, on a plane that lies the camera's height below it.
class Camera {
 public:
  explicit Camera(const RoadlineParam& param)
      : focal_x_(param.focal_length_x()),
        focal_y_(param.focal_length_y()),
        centre_x_(param.optical_center_x()),
        centre_y_(param.optical_center_y()),
        height_(param.camera_height()),
        cos_pitch_(std::cos(radians(param.pitch()))),
        sin_pitch_(std::sin(radians(param.pitch()))),
        cos_yaw_(std::cos(radians(param.yaw()))),
        sin_yaw_(std::sin(radians(param.yaw()))) {}

  Point to_ground(float u, float v) const {
    const double right = (u - centre_x_) / focal_x_, down = (v - centre_y_) / focal_y_;
    const double depth = -cos_pitch_ * down - sin_pitch_;
    const double across = -right * height_;
    const double ahead = (sin_pitch_ * down - cos_pitch_) * height_;
    return {static_cast<float>((across * cos_yaw_ + ahead * sin_yaw_) / depth),
            static_cast<float>((-across * sin_yaw_ + ahead * cos_yaw_) / depth)};
  }

  // The library rounds the camera's parameters here.
  Point to_image(const Point& ground) const {
    const double focal_x = std::trunc(focal_x_), focal_y = std::trunc(focal_y_);
    const double across = ground.x * cos_yaw_ - ground.y * sin_yaw_;
    const double ahead = ground.x * sin_yaw_ + ground.y * cos_yaw_;
    const double depth = cos_pitch_ * ahead + sin_pitch_ * height_;
    const double down = -sin_pitch_ * ahead + cos_pitch_ * height_;
    return {static_cast<float>(focal_x * across / depth + std::trunc(centre_x_)),
            static_cast<float>(focal_y * down / depth + std::trunc(centre_y_))};
  }

  // The column in which lines that lead ahead meet, as the library has it.
  float vanishing_column() const {
    const double sideways = sin_yaw_ * cos_yaw_ / cos_pitch_ * (1 + sin_pitch_);
    return static_cast<float>(std::trunc(focal_x_) * sideways + std::trunc(centre_x_) * cos_yaw_);
  }

 private:
  static double radians(float degrees) { return degrees * M_PI / 180; }

  double focal_x_, focal_y_, centre_x_, centre_y_, height_;
  double cos_pitch_, sin_pitch_, cos_yaw_, sin_yaw_;
};

std::size_t pixels(const char* name, float value) {
  if (value >= 1 && value <= kMostPixels) return static_cast<std::size_t>(value);
  throw std::runtime_error(std::string("roadline_param's ") + name + " is " +
                           std::to_string(value) + ", but must be 1 to " +
                           std::to_string(static_cast<int>(kMostPixels)));
}

// A place in the image, or 0 outside of what is looked at.
std::size_t within(float value, float low, float high, std::size_t size) {
  if (!(value > low && value < high && value >= 0)) return 0;
  const auto place = static_cast<std::size_t>(value);
  return place < size ? place : 0;
}

}  // namespace

Ground::Ground(const RoadlineParam& param)
    : width_(pixels("ipm_width", param.ipm_width())),
      height_(pixels("ipm_height", param.ipm_height())) {
  if (param.focal_length_x() < 1 || param.focal_length_y() < 1) {
    throw std::runtime_error("roadline_param's focal_length_x and focal_length_y must be 1 or more");
  }
  const Camera camera(param);
  const float left = param.ipm_left(), right = param.ipm_right();
  const float top = std::trunc(param.ipm_top()), bottom = std::trunc(param.ipm_bottom());
  const float middle = std::trunc(camera.vanishing_column());
  const Point corners[] = {
      camera.to_ground(middle, top), camera.to_ground(std::trunc(right), top),
      camera.to_ground(std::trunc(left), top), camera.to_ground(middle, bottom)};
  const auto [x_low, x_high] = std::minmax({corners[0].x, corners[1].x, corners[2].x, corners[3].x});
  const auto [y_low, y_high] = std::minmax({corners[0].y, corners[1].y, corners[2].y, corners[3].y});
  const float across = (x_high - x_low) / static_cast<float>(width_);
  const float ahead = (y_high - y_low) / static_cast<float>(height_);
  source_.reserve(width_ * height_);
  for (std::size_t row = 0; row < height_; ++row) {
    for (std::size_t column = 0; column < width_; ++column) {
      const auto [u, v] = camera.to_image({x_low + (static_cast<float>(column) + 0.5f) * across,
                                           y_high - (static_cast<float>(row) + 0.5f) * ahead});
      source_.push_back(within(v, top, bottom, height_) * width_ + within(u, left, right, width_));
    }
  }
}

std::vector<int> Ground::from_above(const std::vector<int>& labels) const {
  std::vector<int> made(source_.size());
  for (std::size_t i = 0; i < made.size(); ++i) made[i] = labels.at(source_[i]);
  return made;
}

std::vector<int> Ground::from_camera(const std::vector<int>& labels) const {
  std::vector<int> made(source_.size());
  for (std::size_t i = 0; i < made.size(); ++i) made[source_[i]] = labels.at(i);
  return made;
}

}  // namespace tasks
}  // namespace opendpu
