// SPDX-License-Identifier: Apache-2.0
// Follows objects through the frames of a video, by where they are and by their features.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <opencv2/core.hpp>
#include <opencv2/highgui.hpp>
#include <opencv2/imgproc.hpp>
#include <tuple>
#include <vector>

namespace vitis {
namespace ai {

class ReidTracker {
 public:
  // Features (1 x n floats, of length 1), box, score, label, the program's own number.
  typedef std::tuple<cv::Mat, cv::Rect_<float>, float, int, int> InputCharact;
  // Number of the object, box, score, label, the program's own number.
  typedef std::tuple<std::uint64_t, cv::Rect_<float>, float, int, int> OutputCharact;
  typedef std::tuple<std::array<int, 4>, std::array<int, 3>> SpecifiedCfg;

  // MODE_MULTIDETS: frames come from several threads. MODE_AUTOPATCH: frames that are left out are
  // patched.
  enum TRACKER_MODE { MODE_MULTIDETS = 0x01, MODE_AUTOPATCH = 0x10 };

  // `cfg` is taken and, as in the library, not used.
  static std::shared_ptr<ReidTracker> create(
      std::uint64_t mode = 0,
      const SpecifiedCfg& cfg = SpecifiedCfg(std::array<int, 4>({3, 3, 1, 1}),
                                             std::array<int, 3>({3, 2, 1})));
  virtual ~ReidTracker() = default;
  ReidTracker(const ReidTracker&) = delete;
  ReidTracker& operator=(const ReidTracker&) = delete;

  // Objects that the last frame has ended: they were not seen for 60 frames.
  virtual std::vector<int> GetRemoveID() = 0;
  // Begins anew.
  virtual void clear() = 0;

  // What follows is for trackers without MODE_MULTIDETS; with it, nothing is found.

  // A frame in which nothing was looked for: objects move on.
  virtual std::vector<OutputCharact> patchFrame(const std::uint64_t frame_id) = 0;
  // Objects of a frame, the newest first: those that were seen in it, and in the three before
  // unless the video has just begun. Detections without a size are taken out of input_characts.
  virtual std::vector<OutputCharact> track(const std::uint64_t frame_id,
                                           std::vector<InputCharact>& input_characts,
                                           const bool is_detection, const bool is_normalized) = 0;

  // What follows is for trackers with MODE_MULTIDETS; without it, false or nothing. Frames are
  // tracked in their order: a thread says that it begins with one and has ended, and waits for its
  // turn, for `timeout` milliseconds at most.
  virtual bool addDetStart(int frame_id) = 0;
  virtual bool setDetEnd(int frame_id) = 0;
  virtual bool setDetTimeout(int frame_id) = 0;
  virtual bool setTrackLock(int frame_id, int timeout = 1000, int interval = 1) = 0;
  virtual bool releaseTrackLock(int frame_id) = 0;
  virtual std::vector<OutputCharact> trackWithoutLock(const std::uint64_t frame_id,
                                                      std::vector<InputCharact>& input_characts,
                                                      const bool is_detection = true,
                                                      const bool is_normalized = true) = 0;
  virtual std::vector<OutputCharact> trackWithLock(const std::uint64_t frame_id,
                                                   std::vector<InputCharact>& input_characts,
                                                   const bool is_detection = true,
                                                   const bool is_normalized = true) = 0;
  // What was found in a frame that was patched, of the last hundred.
  virtual std::vector<OutputCharact> outputUndetTracks(std::uint64_t frame_id) = 0;
  virtual void printState() = 0;
  virtual void printUndetTracks() = 0;

 protected:
  ReidTracker() = default;
};

}  // namespace ai
}  // namespace vitis
