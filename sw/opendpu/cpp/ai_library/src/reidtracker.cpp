// SPDX-License-Identifier: Apache-2.0
// ReidTracker: detections of frames in, objects out; from one thread, or in turn from several.
#include "vitis/ai/reidtracker.hpp"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <iostream>
#include <map>
#include <mutex>

#include "tracks.hpp"

namespace vitis {
namespace ai {
namespace {

constexpr std::size_t kMostPatched = 100;

using Outputs = std::vector<ReidTracker::OutputCharact>;
using Inputs = std::vector<ReidTracker::InputCharact>;

// Whose turn it is: the first frame that is neither tracked nor given up.
class Turns {
 public:
  bool add(int frame) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return frame > last_ && frames_.emplace(frame, "is detected").second;
  }
  bool set(int frame, const char* state) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = frames_.find(frame);
    if (found == frames_.end()) return false;
    found->second = state;
    return true;
  }
  // Forgets a frame.
  bool end(int frame) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const bool known = frames_.erase(frame) > 0;
    changed_.notify_all();
    return known;
  }
  bool wait_for(int frame, int milliseconds) {
    std::unique_lock<std::mutex> lock(mutex_);
    const auto ready = [&] { return !frames_.empty() && frames_.begin()->first == frame; };
    if (!changed_.wait_for(lock, std::chrono::milliseconds(milliseconds), ready)) return false;
    frames_.begin()->second = "is tracked";
    last_ = frame;
    return true;
  }
  void clear() {
    const std::lock_guard<std::mutex> lock(mutex_);
    frames_.clear();
    last_ = -1;
  }
  void print() {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& [frame, state] : frames_) std::cerr << "frame " << frame << " " << state << "\n";
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<int, const char*> frames_;
  int last_ = -1;
};

class ReidTrackerImp : public ReidTracker {
 public:
  explicit ReidTrackerImp(std::uint64_t mode)
      : several_((mode & MODE_MULTIDETS) != 0), patches_((mode & MODE_AUTOPATCH) != 0) {}

  std::vector<int> GetRemoveID() override { return tracks_.removed(); }
  void clear() override {
    tracks_.clear();
    turns_.clear();
    patched_.clear();
    last_ = 0;
  }

  Outputs patchFrame(const std::uint64_t) override {
    return several_ ? Outputs() : tracks_.frame();
  }
  Outputs track(const std::uint64_t frame_id, Inputs& input_characts, const bool is_detection,
                const bool) override {
    return several_ ? Outputs() : next(frame_id, input_characts, is_detection);
  }

  bool addDetStart(int frame_id) override { return several_ && turns_.add(frame_id); }
  bool setDetEnd(int frame_id) override {
    return several_ && turns_.set(frame_id, "waits for its turn");
  }
  bool setDetTimeout(int frame_id) override { return several_ && turns_.end(frame_id); }
  bool setTrackLock(int frame_id, int timeout, int) override {
    return several_ && turns_.wait_for(frame_id, timeout);
  }
  bool releaseTrackLock(int frame_id) override { return several_ && turns_.end(frame_id); }
  Outputs trackWithoutLock(const std::uint64_t frame_id, Inputs& input_characts,
                           const bool is_detection, const bool) override {
    return several_ ? next(frame_id, input_characts, is_detection) : Outputs();
  }
  Outputs trackWithLock(const std::uint64_t frame_id, Inputs& input_characts,
                        const bool is_detection, const bool is_normalized) override {
    if (!several_) return {};
    const auto frame = static_cast<int>(frame_id);
    setTrackLock(frame, 1000, 1);
    auto made = trackWithoutLock(frame_id, input_characts, is_detection, is_normalized);
    releaseTrackLock(frame);
    return made;
  }

  Outputs outputUndetTracks(std::uint64_t frame_id) override {
    while (!patched_.empty() && patched_.front().first <= frame_id) {
      const auto [frame, found] = patched_.front();
      patched_.pop_front();
      if (frame == frame_id) return found;
    }
    return {};
  }
  void printState() override { turns_.print(); }
  void printUndetTracks() override {
    for (const auto& [frame, found] : patched_) {
      std::cerr << "frame " << frame << " has " << found.size() << " objects\n";
    }
  }

 private:
  Outputs next(std::uint64_t frame_id, Inputs& inputs, bool is_detection) {
    if (patches_ && last_ != 0) {
      for (auto frame = last_ + 1; frame < frame_id; ++frame) {
        patched_.emplace_back(frame, tracks_.frame());
        if (patched_.size() > kMostPatched) patched_.pop_front();
      }
    }
    last_ = frame_id;
    return is_detection ? tracks_.frame(inputs) : tracks_.frame();
  }

  bool several_, patches_;
  opendpu::tasks::Tracks tracks_;
  Turns turns_;
  std::deque<std::pair<std::uint64_t, Outputs>> patched_;
  std::uint64_t last_ = 0;
};

}  // namespace

std::shared_ptr<ReidTracker> ReidTracker::create(std::uint64_t mode, const SpecifiedCfg&) {
  return std::make_shared<ReidTrackerImp>(mode);
}

}  // namespace ai
}  // namespace vitis
