// SPDX-License-Identifier: Apache-2.0
// Threads of programs with videos, and what goes from one to the next.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <iostream>
#include <memory>
#include <opencv2/core.hpp>
#include <string>
#include <thread>
#include <vector>

#include "vitis/ai/bounded_queue.hpp"

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

// How long a thread waits for a queue before it looks whether it is to end.
constexpr std::chrono::milliseconds kDemoPatience{200};

// Runs again and again until it is stopped or run() is not 0. What run() throws is printed and
// stops all.
class MyThread {
 public:
  MyThread() { all_threads().push_back(this); }
  virtual ~MyThread() {
    auto& all = all_threads();
    all.erase(std::remove(all.begin(), all.end(), this), all.end());
  }
  MyThread(const MyThread&) = delete;
  MyThread& operator=(const MyThread&) = delete;

  virtual int run() = 0;
  virtual std::string name() = 0;

  void start() {
    thread_ = std::make_unique<std::thread>([this] { main(); });
  }
  void stop() { stop_ = true; }
  void wait() {
    if (thread_ && thread_->joinable()) thread_->join();
  }
  bool is_stopped() { return stop_; }

  static std::vector<MyThread*>& all_threads() {
    static std::vector<MyThread*> threads;
    return threads;
  }
  static void signal_handler(int) { stop_all(); }
  static void start_all() {
    for (auto* thread : all_threads()) thread->start();
  }
  static void stop_all() {
    for (auto* thread : all_threads()) thread->stop();
  }
  static void wait_all() {
    for (auto* thread : all_threads()) thread->wait();
  }
  // Whether one has thrown.
  static std::atomic<bool>& failed() {
    static std::atomic<bool> value{false};
    return value;
  }

  std::atomic<bool> stop_{false};
  std::unique_ptr<std::thread> thread_;

 protected:
  // Waits for room, unless the thread is stopped; what run() returns then.
  template <typename Thing>
  int put(BoundedQueue<Thing>& queue, const Thing& thing) {
    while (!queue.push(thing, kDemoPatience)) {
      if (is_stopped()) return -1;
    }
    return 0;
  }

 private:
  void main() {
    try {
      while (!stop_) {
        if (run() != 0) stop_ = true;
      }
    } catch (const std::exception& error) {
      std::cerr << error.what() << std::endl;
      failed() = true;
      stop_all();
    }
  }
};

}  // namespace ai
}  // namespace vitis
