// SPDX-License-Identifier: Apache-2.0
// Objects that are followed from frame to frame.
#include "tracks.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

#include "assignment.hpp"

namespace opendpu {
namespace tasks {
namespace {

constexpr std::size_t kPlaces = 3;  // that a line is laid through
constexpr int kMostUnseen = 60, kLeastHits = 3;
constexpr float kLeastOverlap = 0.3f;
// Distances of features: of the same object; of one that is where it should be, or overlaps it.
constexpr double kSame = 0.8, kSimilar = 1.0, kSameOverlapping = 0.7;
constexpr double kApart = kSimilar + 1;
constexpr double kMemory = 0.9;

using Costs = std::vector<std::vector<double>>;

// At `now`, of the line nearest to values at their times.
double on_line(const std::vector<double>& times, const std::vector<double>& values, double now) {
  double t = 0, v = 0, tt = 0, tv = 0;
  for (std::size_t i = 0; i < times.size(); ++i) {
    t += times[i];
    v += values[i];
    tt += times[i] * times[i];
    tv += times[i] * values[i];
  }
  const auto number = static_cast<double>(times.size());
  if (times.size() < 2) return v;
  const double slope = (number * tv - t * v) / (number * tt - t * t);
  return (v - slope * t) / number + slope * now;
}

float overlap(const cv::Rect_<float>& a, const cv::Rect_<float>& b) {
  const float common = (a & b).area();
  return common / (a.area() + b.area() - common);
}

bool has_centre_of(const cv::Rect_<float>& box, const cv::Rect_<float>& other) {
  const float x = other.x + other.width / 2, y = other.y + other.height / 2;
  return x >= box.x && x <= box.x + box.width && y >= box.y && y <= box.y + box.height;
}

class Matching {
 public:
  Matching(const std::vector<Track>& tracks, const std::vector<Detection>& detections)
      : tracks_(tracks), detections_(detections),
        features_(tracks.size(), std::vector<double>(detections.size(), kApart)) {
    for (std::size_t i = 0; i < tracks.size(); ++i) {
      for (std::size_t j = 0; j < detections.size(); ++j) {
        if (!of_one_kind(i, j)) continue;
        features_[i][j] = cv::norm(tracks[i].features(), std::get<0>(detections[j]), cv::NORM_L2);
      }
    }
  }

  std::vector<std::pair<std::size_t, std::size_t>> pairs() {
    by_overlap();
    by_features(kSame);
    for (std::size_t i = 0; i < tracks_.size(); ++i) {
      for (std::size_t j = 0; j < detections_.size(); ++j) {
        if (!has_centre_of(tracks_[i].box(), std::get<1>(detections_[j]))) features_[i][j] = kApart;
      }
    }
    by_features(kSimilar);
    return pairs_;
  }

 private:
  bool of_one_kind(std::size_t i, std::size_t j) const {
    return tracks_[i].label() == std::get<3>(detections_[j]);
  }

  void by_overlap() {
    Costs costs(tracks_.size(), std::vector<double>(detections_.size(), 1));
    for (std::size_t i = 0; i < tracks_.size(); ++i) {
      for (std::size_t j = 0; j < detections_.size(); ++j) {
        if (!of_one_kind(i, j)) continue;
        costs[i][j] = 1.0f - overlap(tracks_[i].box(), std::get<1>(detections_[j]));
      }
    }
    const auto columns = assigned(costs);
    for (std::size_t i = 0; i < columns.size(); ++i) {
      if (columns[i] < 0) continue;
      const auto j = static_cast<std::size_t>(columns[i]);
      if (1 - costs[i][j] < kLeastOverlap) continue;
      if (features_[i][j] < kSameOverlapping) {
        take(i, j);
      } else if (features_[i][j] > kSimilar) {
        features_[i][j] = kApart;
      }
    }
  }

  void by_features(double most) {
    const auto columns = assigned(features_);
    for (std::size_t i = 0; i < columns.size(); ++i) {
      if (columns[i] < 0) continue;
      const auto j = static_cast<std::size_t>(columns[i]);
      if (features_[i][j] < most) take(i, j);
    }
  }

  void take(std::size_t i, std::size_t j) {
    pairs_.emplace_back(i, j);
    for (auto& row : features_) row[j] = kApart;
    std::fill(features_[i].begin(), features_[i].end(), kApart);
  }

  const std::vector<Track>& tracks_;
  const std::vector<Detection>& detections_;
  Costs features_;
  std::vector<std::pair<std::size_t, std::size_t>> pairs_;
};

void check(const cv::Mat& features, const cv::Mat& other) {
  if (features.type() == CV_32FC1 && features.rows == 1 && features.cols > 0 &&
      features.cols == other.cols) {
    return;
  }
  throw std::invalid_argument("features must be a row of floats, all of one length, but there are " +
                              std::to_string(features.rows) + "x" +
                              std::to_string(features.cols) + " and " +
                              std::to_string(other.rows) + "x" + std::to_string(other.cols));
}

}  // namespace

void Motion::see(const cv::Rect_<float>& box) {
  places_.push_back({now_, box.x + box.width / 2., box.y + box.height / 2.});
  if (places_.size() > kPlaces) places_.pop_front();
  width_ = box.width;
  height_ = box.height;
}

cv::Rect_<float> Motion::box() const {
  std::vector<double> times, xs, ys;
  for (const auto& place : places_) {
    times.push_back(static_cast<double>(place.time - places_.front().time));
    xs.push_back(place.x);
    ys.push_back(place.y);
  }
  const auto now = static_cast<double>(now_ - places_.front().time);
  return {static_cast<float>(on_line(times, xs, now)) - width_ / 2,
          static_cast<float>(on_line(times, ys, now)) - height_ / 2, width_, height_};
}

Track::Track(const Detection& detection) : detection_(detection), motion_(std::get<1>(detection)) {
  remember(std::get<0>(detection));
}

void Track::advance() {
  if (frames_unseen > 0) hits = 0;
  ++frames_unseen;
  motion_.advance();
}

void Track::see(const Detection& detection) {
  detection_ = detection;
  frames_unseen = 0;
  ++hits;
  motion_.see(std::get<1>(detection));
  remember(std::get<0>(detection));
}

Tracked Track::told() const {
  return {id, box(), std::get<2>(detection_), label(), std::get<4>(detection_)};
}

void Track::remember(const cv::Mat& features) {
  features_ = features_.empty() ? features.clone()
                                : cv::Mat(features_ * kMemory + features * (1 - kMemory));
}

std::vector<std::pair<std::size_t, std::size_t>> same_objects(
    const std::vector<Track>& tracks, const std::vector<Detection>& detections) {
  return Matching(tracks, detections).pairs();
}

std::vector<Tracked> Tracks::frame(std::vector<Detection>& detections) {
  detections.erase(std::remove_if(detections.begin(), detections.end(),
                                  [](const Detection& detection) {
                                    const auto& box = std::get<1>(detection);
                                    return box.width <= 0 || box.height <= 0 ||
                                           std::get<2>(detection) < 0;
                                  }),
                   detections.end());
  for (const auto& detection : detections) {
    const auto& first = tracks_.empty() ? std::get<0>(detections[0]) : tracks_[0].features();
    check(std::get<0>(detection), first);
  }
  advance();
  const auto pairs = same_objects(tracks_, detections);
  std::vector<bool> known(detections.size(), false);
  for (const auto& [track, detection] : pairs) {
    tracks_[track].see(detections[detection]);
    known[detection] = true;
  }
  for (std::size_t i = 0; i < detections.size(); ++i) {
    if (!known[i]) tracks_.emplace_back(detections[i]);
  }
  return told();
}

std::vector<Tracked> Tracks::frame() {
  advance();
  for (auto& track : tracks_) track.miss();
  return told();
}

void Tracks::advance() {
  ++frames_;
  removed_.clear();
  for (auto& track : tracks_) track.advance();
}

std::vector<Tracked> Tracks::told() {
  std::vector<Tracked> made;
  for (auto track = tracks_.rbegin(); track != tracks_.rend(); ++track) {
    const bool seen = track->frames_unseen == 0;
    if (!seen || (track->hits < kLeastHits && frames_ > kLeastHits)) continue;
    if (track->id == 0) track->id = next_id_++;
    made.push_back(track->told());
  }
  const auto gone = [](const Track& track) { return track.frames_unseen > kMostUnseen; };
  for (const auto& track : tracks_) {
    if (gone(track) && track.id != 0) removed_.push_back(static_cast<int>(track.id));
  }
  tracks_.erase(std::remove_if(tracks_.begin(), tracks_.end(), gone), tracks_.end());
  return made;
}

}  // namespace tasks
}  // namespace opendpu
