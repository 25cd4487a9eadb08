// SPDX-License-Identifier: Apache-2.0
// How long a thread has waited for its DPU: tasks add to it, programs reset and read it.
#pragma once

namespace vitis {
namespace ai {

class TimeMeasure {
 public:
  TimeMeasure() = default;
  TimeMeasure(const TimeMeasure&) = delete;
  TimeMeasure& operator=(const TimeMeasure&) = delete;

  // The calling thread's own.
  static TimeMeasure& getThreadLocalForDpu() {
    thread_local TimeMeasure measure;
    return measure;
  }

  // Microseconds.
  void reset() { consuming_time_ = 0; }
  void add(int time) { consuming_time_ += time; }
  int get() { return consuming_time_; }

  int consuming_time_ = 0;
};

}  // namespace ai
}  // namespace vitis
