// SPDX-License-Identifier: Apache-2.0
// Threads of programs that write down what a model finds in a list of pictures; see
// demo_accuracy.hpp. Programs derive from AccThread, and from ReadImagesThread where their pictures
// are no pictures.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <iostream>
#include <memory>
#include <opencv2/core.hpp>
#include <opencv2/imgcodecs.hpp>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "UniLog/UniLog.hpp"
#include "vitis/ai/bounded_queue.hpp"
#include "vitis/ai/env_config.hpp"

DEF_ENV_PARAM(DEBUG_DEMO, "0")

namespace vitis {
namespace ai {

// A picture; numbers count from 1.
struct FrameInfo {
  unsigned long frame_id;
  cv::Mat mat;
  std::string single_name;  // without folders
  int w;
  int h;
};

// A model's answer for a picture, of the type that its run returns.
struct DpuResultInfo {
  unsigned long frame_id;
  std::shared_ptr<void> result_ptr;
  std::string single_name;
  int w;
  int h;
};

using queue_t = BoundedQueue<FrameInfo>;
using queue_dpu = BoundedQueue<DpuResultInfo>;

// The number of the last picture, as soon as it is known.
inline std::atomic<int> g_last_frame_id{0};

// Calls run() until it returns something else than 0, or all are stopped.
struct MyThread {
  static std::vector<MyThread*>& all_threads() {
    static std::vector<MyThread*> threads;
    return threads;
  }
  static void signal_handler(int) { stop_all(); }
  static void stop_all() {
    for (auto* thread : all_threads()) thread->stop();
  }
  static void wait_all() {
    for (auto* thread : all_threads()) thread->wait();
  }
  static void start_all() {
    for (auto* thread : all_threads()) thread->start();
  }
  // Whether an exception ended one of them.
  static std::atomic<bool>& failed() {
    static std::atomic<bool> value{false};
    return value;
  }

  MyThread() : stop_(false) { all_threads().push_back(this); }
  virtual ~MyThread() {
    auto& threads = all_threads();
    threads.erase(std::remove(threads.begin(), threads.end(), this), threads.end());
  }
  MyThread(const MyThread&) = delete;
  MyThread& operator=(const MyThread&) = delete;

  virtual int run() = 0;
  virtual std::string name() = 0;

  void main() {
    try {
      while (!stop_ && run() == 0) {
      }
    } catch (const std::exception& error) {
      std::cerr << name() << ": " << error.what() << std::endl;
      failed() = true;
      stop_all();
    }
    stop_ = true;
  }
  void start() {
    thread_ = std::make_unique<std::thread>([this] { main(); });
  }
  void stop() { stop_ = true; }
  void wait() {
    if (thread_ && thread_->joinable()) thread_->join();
  }
  bool is_stopped() { return stop_; }

  std::atomic<bool> stop_;
  std::unique_ptr<std::thread> thread_;
};

// Waits for room until the thread is stopped; tells whether there was some.
template <typename T>
bool push_unless_stopped(MyThread& thread, BoundedQueue<T>& queue, const T& thing) {
  while (!queue.push(thing, std::chrono::milliseconds(200))) {
    if (thread.is_stopped()) return false;
  }
  return true;
}

// Reads the pictures that a file lists, one a line. What cannot be read is told and left out.
struct ReadImagesThread : public MyThread {
  ReadImagesThread(const std::string& images_list_file, queue_t* queue)
      : images_list_file_(images_list_file), frame_id_(0), queue_(queue) {}

  virtual void set_filename_and_queue(const std::string& images_list_file, queue_t* queue) {
    images_list_file_ = images_list_file;
    queue_ = queue;
  }

  int run() override {
    std::ifstream list(images_list_file_);
    if (!list) throw std::runtime_error("cannot read list " + images_list_file_);
    // A picture is handed on when it is known whether another one follows.
    FrameInfo last{};
    for (std::string line; std::getline(list, line);) {
      const auto image = cv::imread(line);
      if (image.empty()) {
        std::cerr << "cannot read image: " << line << std::endl;
        continue;
      }
      if (last.frame_id != 0 && !push_unless_stopped(*this, *queue_, last)) return -1;
      last = {++frame_id_, image, get_single_name(line), image.cols, image.rows};
    }
    if (last.frame_id == 0) throw std::runtime_error("no images in list " + images_list_file_);
    g_last_frame_id = static_cast<int>(frame_id_);
    push_unless_stopped(*this, *queue_, last);
    return -1;
  }

  std::string name() override { return "ReadImageThread"; }

  std::string get_single_name(const std::string& line) {
    return line.substr(line.rfind('/') + 1);
  }

  std::string images_list_file_;
  unsigned long frame_id_;
  std::string single_name_;
  queue_t* queue_;
};

// Takes results, in the order of pictures; programs say in run() what becomes of them. It ends when
// run() has seen g_last_frame_id, and returns -1.
struct AccThread : public MyThread {
  AccThread() : queue_(std::make_unique<queue_dpu>(30)) {}
  int run() override { return 0; }
  std::string name() override { return "AccShowThread"; }
  queue_dpu* getQueue() { return queue_.get(); }

  std::unique_ptr<queue_dpu> queue_;
};

}  // namespace ai
}  // namespace vitis
