// SPDX-License-Identifier: Apache-2.0
// Objects that are followed from frame to frame.
#pragma once

#include <cstdint>
#include <deque>
#include <opencv2/core.hpp>
#include <utility>
#include <vector>

#include "vitis/ai/reidtracker.hpp"

namespace opendpu {
namespace tasks {

using Detection = vitis::ai::ReidTracker::InputCharact;
using Tracked = vitis::ai::ReidTracker::OutputCharact;

// Where an object is: its centre on the straight line that is nearest to the last three, its size
// the last one.
class Motion {
 public:
  explicit Motion(const cv::Rect_<float>& box) { see(box); }
  void advance() { ++now_; }
  void see(const cv::Rect_<float>& box);
  cv::Rect_<float> box() const;

 private:
  struct Place {
    std::int64_t time;
    double x, y;
  };
  std::int64_t now_ = 0;
  std::deque<Place> places_;
  float width_ = 0, height_ = 0;
};

class Track {
 public:
  explicit Track(const Detection& detection);

  void advance();
  void see(const Detection& detection);
  void miss() { std::get<4>(detection_) = -1; }

  std::uint64_t id = 0;     // 0 until it is told for the first time
  int hits = 0;             // frames in a row that it was seen in, but for the first
  int frames_unseen = 0;
  cv::Rect_<float> box() const { return motion_.box(); }
  int label() const { return std::get<3>(detection_); }
  const cv::Mat& features() const { return features_; }
  Tracked told() const;

 private:
  void remember(const cv::Mat& features);

  Detection detection_;
  Motion motion_;
  cv::Mat features_;  // a running mean
};

// Pairs of tracks and detections that are the same object: first by overlap, then by features, then
// by less similar features near to where the object should be.
std::vector<std::pair<std::size_t, std::size_t>> same_objects(
    const std::vector<Track>& tracks, const std::vector<Detection>& detections);

class Tracks {
 public:
  // Throws std::invalid_argument where features are not rows of floats of one length.
  std::vector<Tracked> frame(std::vector<Detection>& detections);
  // A frame without detection.
  std::vector<Tracked> frame();
  const std::vector<int>& removed() const { return removed_; }
  void clear() { *this = Tracks(); }

 private:
  void advance();
  std::vector<Tracked> told();

  std::vector<Track> tracks_;
  std::vector<int> removed_;
  std::uint64_t next_id_ = 1;
  int frames_ = 0;
};

}  // namespace tasks
}  // namespace opendpu
