// SPDX-License-Identifier: Apache-2.0
// Threads of programs with videos, and what goes from one to the next.
#pragma once

#include <opencv2/core.hpp>
#include <string>

#include "vitis/ai/repeating_thread.hpp"

namespace vitis {
namespace ai {

// A picture of a video; numbers begin with 1. What is about mosaics is the program's own.
struct FrameInfo {
  int channel_id;
  unsigned long frame_id;
  cv::Mat mat;
  float max_fps;
  float fps;
  int belonging;
  int mosaik_width;
  int mosaik_height;
  int horizontal_num;
  int vertical_num;
  cv::Rect_<int> local_rect;
  cv::Rect_<int> page_layout;
  std::string channel_name;
};

using queue_t = BoundedQueue<FrameInfo>;

using MyThread = RepeatingThread<ThreadMessage::kPlain>;

}  // namespace ai
}  // namespace vitis
