// SPDX-License-Identifier: Apache-2.0
// Persons out of maps of joints and of limbs' directions.
#include "persons.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <opencv2/imgproc.hpp>

namespace opendpu {
namespace tasks {
namespace {

constexpr float kLeastPeak = 0.1f;
// Points along a limb where its direction is looked up, how far they must agree, and how many.
constexpr int kPoints = 10;
constexpr float kLeastAgreement = 0.05f;
constexpr float kAgreeing = 0.8f;
// What a person must have.
constexpr int kLeastJoints = 4;
constexpr float kLeastMean = 0.4f;

struct Peak {
  cv::Point2f place;
  float score;
};

struct Limb {
  std::size_t from, to;  // numbers of peaks
  float score;
};

struct Candidate {
  std::array<int, kJoints> peaks;  // their numbers, -1 for none
  float score;
  int joints;
};

// Where the blurred map is as large as at its four neighbours.
std::vector<Peak> peaks(const cv::Mat& map) {
  cv::Mat blurred;
  cv::GaussianBlur(map, blurred, cv::Size(3, 3), 3);
  std::vector<Peak> found;
  for (int y = 1; y < blurred.rows - 1; ++y) {
    const float *above = blurred.ptr<float>(y - 1), *row = blurred.ptr<float>(y),
                *below = blurred.ptr<float>(y + 1);
    for (int x = 1; x < blurred.cols - 1; ++x) {
      const float value = row[x];
      if (!(value > kLeastPeak) || value < row[x - 1] || value < row[x + 1] || value < above[x] ||
          value < below[x]) {
        continue;
      }
      const cv::Point2f place(static_cast<float>(x), static_cast<float>(y));
      found.push_back({place, map.at<float>(y, x)});
    }
  }
  return found;
}

// How far the map's directions agree with a line; negative where too few do.
float agreement(cv::Point2f from, cv::Point2f to, const cv::Mat& x, const cv::Mat& y,
                float width) {
  const cv::Point2f line = from - to;
  const float length = std::sqrt(line.dot(line));
  if (length == 0) return -1;
  float sum = 0;
  int agreeing = 0;
  for (int i = 0; i < kPoints; ++i) {
    const auto part = static_cast<float>(i) / (kPoints - 1);
    const auto column = static_cast<int>(std::round(from.x - part * line.x));
    const auto row = static_cast<int>(std::round(from.y - part * line.y));
    const float value = std::abs(x.at<float>(row, column) * line.x / length +
                                 y.at<float>(row, column) * line.y / length);
    sum += value;
    if (value > kLeastAgreement) ++agreeing;
  }
  if (!(static_cast<float>(agreeing) > kAgreeing * kPoints)) return -1;
  return sum / kPoints + std::min(0.5f * width / length - 1, 0.f);
}

// Each peak in one limb at most; the surest first.
std::vector<Limb> limbs_between(const std::vector<Peak>& from, const std::vector<Peak>& to,
                                const cv::Mat& x, const cv::Mat& y, float width) {
  std::vector<Limb> found;
  for (std::size_t i = 0; i < from.size(); ++i) {
    for (std::size_t j = 0; j < to.size(); ++j) {
      const float score = agreement(from[i].place, to[j].place, x, y, width);
      if (score > 0) found.push_back({i, j, score});
    }
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const Limb& a, const Limb& b) { return a.score > b.score; });
  std::vector<bool> from_used(from.size()), to_used(to.size());
  std::vector<Limb> kept;
  for (const auto& limb : found) {
    if (from_used[limb.from] || to_used[limb.to]) continue;
    from_used[limb.from] = to_used[limb.to] = true;
    kept.push_back(limb);
  }
  return kept;
}

// Adds a limb to the person that has the joint where it begins, or begins a new person with it.
void add(std::vector<Candidate>& candidates, std::size_t number, const Limb& limb,
         const std::vector<std::vector<Peak>>& peaks) {
  const auto [first, second] = kLimbs[number];
  const auto from = static_cast<int>(limb.from);
  auto owner = std::find_if(candidates.begin(), candidates.end(), [&, joint = first](auto& one) {
    return one.peaks[joint] == from;
  });
  if (owner == candidates.end()) {
    Candidate made{{}, peaks[first][limb.from].score, 1};
    made.peaks.fill(-1);
    made.peaks[first] = from;
    owner = candidates.insert(candidates.end(), made);
  }
  owner->peaks[second] = static_cast<int>(limb.to);
  owner->score += peaks[second][limb.to].score + limb.score;
  ++owner->joints;
}

}  // namespace

std::vector<Person> persons(const std::vector<cv::Mat>& joints, const std::vector<cv::Mat>& limbs,
                            float width) {
  std::vector<std::vector<Peak>> found;
  for (std::size_t i = 0; i < kJoints; ++i) found.push_back(peaks(joints.at(i)));
  std::vector<Candidate> candidates;
  for (std::size_t i = 0; i < std::size(kLimbs); ++i) {
    const auto [first, second] = kLimbs[i];
    for (const auto& limb : limbs_between(found[first], found[second], limbs.at(2 * i),
                                          limbs.at(2 * i + 1), width)) {
      add(candidates, i, limb, found);
    }
  }
  std::vector<Person> made;
  for (const auto& one : candidates) {
    if (one.joints < kLeastJoints || one.score / static_cast<float>(one.joints) < kLeastMean) {
      continue;
    }
    auto& person = made.emplace_back();
    for (std::size_t i = 0; i < kJoints; ++i) {
      if (one.peaks[i] >= 0) person[i] = found[i][static_cast<std::size_t>(one.peaks[i])].place;
    }
  }
  return made;
}

}  // namespace tasks
}  // namespace opendpu
