// SPDX-License-Identifier: Apache-2.0
// Videos through threads: read in order, changed by several, shown in order.
#pragma once

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <memory>
#include <opencv2/core.hpp>
#include <opencv2/highgui.hpp>
#include <opencv2/imgproc.hpp>
#include <opencv2/videoio.hpp>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "vitis/ai/bounded_queue.hpp"
#include "vitis/ai/env_config.hpp"

DEF_ENV_PARAM(DEMO_USE_VIDEO_WRITER, "0")
DEF_ENV_PARAM_2(DEMO_VIDEO_WRITER, "appsrc ! videoconvert ! autovideosink", std::string)
DEF_ENV_PARAM(DEMO_VIDEO_WRITER_WIDTH, "640")
DEF_ENV_PARAM(DEMO_VIDEO_WRITER_HEIGHT, "480")

namespace vitis {
namespace ai {
namespace video {

using Change = std::function<cv::Mat(cv::Mat&)>;

struct Arguments {
  std::vector<int> threads;
  std::vector<std::string> files;
};

// Of "-t THREADS ... FILE ..."; ends the program where they are wrong.
inline Arguments parse(int argc, char* argv[], int start) {
  Arguments given;
  optind = start;
  for (int option = 0; (option = getopt(argc, argv, "c:t:")) != -1;) {
    if (option == 't') {
      given.threads.push_back(std::max(1, std::atoi(optarg)));
    } else if (option != 'c') {
      std::exit(1);
    }
  }
  given.files.assign(argv + std::min(optind, argc), argv + argc);
  if (given.files.empty()) {
    std::cout << "usage: " << argv[0] << " -t <num_of_threads> <video file name>" << std::endl;
    std::exit(1);
  }
  if (given.threads.empty()) given.threads.push_back(1);
  return given;
}

// Set by Ctrl-C, Esc, or what went wrong.
inline std::atomic<bool>& stopped() {
  static std::atomic<bool> value{false};
  return value;
}

struct Frame {
  unsigned long number = 0;
  cv::Mat image;
};

// One video: a thread that reads, and those that change.
class Channel {
 public:
  Channel(const std::string& name, std::vector<Change> changes)
      : name_(name), changes_(std::move(changes)), read_(5), done_(5 * changes_.size()) {
    open();
  }
  void start() {
    threads_.emplace_back([this] { guarded([this] { read(); }); });
    for (auto& change : changes_) {
      threads_.emplace_back([this, &change] { guarded([&] { work(change); }); });
    }
  }
  void join() {
    for (auto& thread : threads_) thread.join();
  }
  // The next frame, if it is there in time.
  bool next(cv::Mat& image) {
    Frame frame;
    const auto fits = [this](const Frame& other) { return other.number == shown_; };
    if (!done_.pop(frame, fits, std::chrono::milliseconds(20))) return false;
    ++shown_;
    image = frame.image;
    tell_speed(image);
    return true;
  }

 private:
  static void guarded(const std::function<void()>& run) {
    try {
      run();
    } catch (const std::exception& error) {
      std::cerr << error.what() << std::endl;
      failed() = true;
      stopped() = true;
    }
  }

 public:
  static std::atomic<bool>& failed() {
    static std::atomic<bool> value{false};
    return value;
  }

 private:
  void open() {
    const bool camera = name_.size() == 1 && name_[0] >= '0' && name_[0] <= '9';
    if (camera) {
      source_.open(std::stoi(name_));
    } else {
      source_.open(name_);
    }
    if (!source_.isOpened()) {
      throw std::runtime_error("[VAILIB_DEMO_VIDEO_OPEN_ERROR] cannot open video " + name_);
    }
  }

  void read() {
    Frame frame;
    for (bool last_was_empty = false; !stopped();) {
      source_ >> frame.image;
      if (frame.image.empty()) {
        if (last_was_empty) throw std::runtime_error("video " + name_ + " has no frames");
        last_was_empty = true;
        open();
        continue;
      }
      last_was_empty = false;
      put(read_, {frame.number++, frame.image.clone()});
    }
  }

  void work(const Change& change) {
    Frame frame;
    while (!stopped()) {
      if (!read_.pop(frame, kPatience)) continue;
      frame.image = change(frame.image);
      put(done_, frame);
    }
  }

  static void put(BoundedQueue<Frame>& queue, const Frame& frame) {
    while (!stopped() && !queue.push(frame, kPatience)) {
    }
  }

  void tell_speed(cv::Mat& image) {
    const auto now = std::chrono::steady_clock::now();
    if (shown_ == 1) first_ = now;
    const std::chrono::duration<double> passed = now - first_;
    if (passed.count() > 0 && image.cols > 200) {
      const auto text = "FPS: " + std::to_string((shown_ - 1) / passed.count());
      cv::putText(image, text, cv::Point(10, 20), cv::FONT_HERSHEY_SIMPLEX, 0.5,
                  cv::Scalar(20, 20, 180), 2, 1);
    }
  }

  static constexpr std::chrono::milliseconds kPatience{200};

  std::string name_;
  std::vector<Change> changes_;
  cv::VideoCapture source_;
  BoundedQueue<Frame> read_, done_;
  std::vector<std::thread> threads_;
  unsigned long shown_ = 0;
  std::chrono::steady_clock::time_point first_;
};

// All channels, in windows or a pipeline.
class Show {
 public:
  void add(const std::string& name, std::vector<Change> changes) {
    channels_.push_back(std::make_unique<Channel>(name, std::move(changes)));
  }

  // Until somebody ends it; returns what main does.
  int run() {
    std::signal(SIGINT, [](int) { stopped() = true; });
    open_writer();
    for (auto& channel : channels_) channel->start();
    try {
      while (!stopped()) show();
    } catch (const std::exception& error) {
      std::cerr << error.what() << std::endl;
      Channel::failed() = true;
    }
    stopped() = true;
    for (auto& channel : channels_) channel->join();
    return Channel::failed() ? 1 : 0;
  }

 private:
  void open_writer() {
    if (!ENV_PARAM(DEMO_USE_VIDEO_WRITER)) return;
    const cv::Size size(ENV_PARAM(DEMO_VIDEO_WRITER_WIDTH), ENV_PARAM(DEMO_VIDEO_WRITER_HEIGHT));
    if (!writer_.open(ENV_PARAM(DEMO_VIDEO_WRITER), cv::CAP_GSTREAMER, 0, 25., size, true)) {
      throw std::runtime_error("[VAILIB_DEMO_GST_ERROR] cannot open " +
                               ENV_PARAM(DEMO_VIDEO_WRITER));
    }
  }

  void show() {
    cv::Mat image;
    for (std::size_t i = 0; i < channels_.size(); ++i) {
      if (!channels_[i]->next(image)) continue;
      if (writer_.isOpened()) {
        writer_ << image;
      } else {
        cv::imshow("CH-" + std::to_string(i), image);
        if (cv::waitKey(1) == 27) stopped() = true;  // Esc
      }
    }
  }

  std::vector<std::unique_ptr<Channel>> channels_;
  cv::VideoWriter writer_;
};

}  // namespace video
}  // namespace ai
}  // namespace vitis
