// SPDX-License-Identifier: Apache-2.0
// Videos through threads: read in order, changed by several, shown in order. Programs build their
// own of them, too.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <functional>
#include <iostream>
#include <limits>
#include <memory>
#include <opencv2/core.hpp>
#include <opencv2/highgui.hpp>
#include <opencv2/imgproc.hpp>
#include <opencv2/videoio.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "vitis/ai/env_config.hpp"
#include "vitis/ai/my_thread.hpp"

DEF_ENV_PARAM(DEBUG_DEMO, "0")
DEF_ENV_PARAM(DEMO_USE_VIDEO_WRITER, "0")
DEF_ENV_PARAM_2(DEMO_VIDEO_WRITER, "appsrc ! videoconvert ! autovideosink", std::string)
DEF_ENV_PARAM(DEMO_VIDEO_WRITER_WIDTH, "640")
DEF_ENV_PARAM(DEMO_VIDEO_WRITER_HEIGHT, "480")

namespace vitis {
namespace ai {

// Reads a video, which begins anew at its end, or a camera, of which frames that nobody has time
// for are left out.
class DecodeThread : public MyThread {
 public:
  DecodeThread(int channel_id, const std::string& video_file, queue_t* queue)
      : channel_id_(channel_id), video_file_(video_file), queue_(queue) {
    open_stream();
  }
  int run() override {
    cv::Mat image;
    *video_stream_ >> image;
    if (image.empty()) {
      if (ended_) throw std::runtime_error("video " + video_file_ + " has no frames");
      ended_ = true;
      open_stream();
      return 0;
    }
    ended_ = false;
    if (is_camera_ && !queue_->empty()) return 0;
    FrameInfo frame{};
    frame.channel_id = channel_id_;
    frame.frame_id = ++frame_id_;
    frame.mat = image.clone();
    return put(*queue_, frame);
  }
  std::string name() override { return "DecodeThread-" + std::to_string(channel_id_); }
  void open_stream() {
    is_camera_ = video_file_.size() == 1 && video_file_[0] >= '0' && video_file_[0] <= '9';
    video_stream_ = is_camera_ ? std::make_unique<cv::VideoCapture>(std::stoi(video_file_))
                               : std::make_unique<cv::VideoCapture>(video_file_);
    if (!video_stream_->isOpened()) {
      throw std::runtime_error("[VAILIB_DEMO_VIDEO_OPEN_ERROR] cannot open video " + video_file_);
    }
  }

  int channel_id_;
  std::string video_file_;
  unsigned long frame_id_ = 0;
  std::unique_ptr<cv::VideoCapture> video_stream_;
  queue_t* queue_;
  bool is_camera_ = false;

 private:
  bool ended_ = false;
};

// What becomes of the frames of a video.
struct Filter {
  virtual ~Filter() = default;
  virtual cv::Mat run(cv::Mat& input) = 0;
};

// Changes frames.
class DpuThread : public MyThread {
 public:
  DpuThread(std::unique_ptr<Filter>&& filter, queue_t* queue_in, queue_t* queue_out,
            const std::string& suffix)
      : filter_(std::move(filter)), queue_in_(queue_in), queue_out_(queue_out), suffix_(suffix) {}
  int run() override {
    FrameInfo frame{};
    if (!queue_in_->pop(frame, kThreadPatience)) return 0;
    if (filter_) frame.mat = filter_->run(frame.mat);
    return put(*queue_out_, frame);
  }
  std::string name() override { return "DPU-" + suffix_; }

  std::unique_ptr<Filter> filter_;
  queue_t* queue_in_;
  queue_t* queue_out_;
  std::string suffix_;
};

// Puts frames into their order and writes into them how many there are a second. A frame that is
// missing is not waited for when the queue is full without it.
class SortingThread : public MyThread {
 public:
  SortingThread(queue_t* queue_in, queue_t* queue_out, const std::string& suffix)
      : queue_in_(queue_in), queue_out_(queue_out), suffix_(suffix) {}
  int run() override {
    FrameInfo frame{};
    auto lowest = std::numeric_limits<unsigned long>::max();
    const auto next = [&](const FrameInfo& other) {
      lowest = std::min(lowest, other.frame_id);
      return other.frame_id <= frame_id_;
    };
    if (!queue_in_->pop(frame, next, kThreadPatience)) {
      if (queue_in_->size() == queue_in_->capacity()) frame_id_ = lowest;
      return 0;
    }
    ++frame_id_;
    tell_speed(frame);
    return put(*queue_out_, frame);
  }
  std::string name() override { return "SORT-" + suffix_; }

  queue_t* queue_in_;
  queue_t* queue_out_;
  unsigned long frame_id_ = 1;
  std::deque<std::chrono::steady_clock::time_point> points_;
  std::string suffix_;
  float fps_ = 0;
  float max_fps_ = 0;

 private:
  // Over the last two seconds.
  void tell_speed(FrameInfo& frame) {
    const auto now = std::chrono::steady_clock::now();
    if (!points_.empty()) {
      const std::chrono::duration<float> passed = now - points_.back();
      if (passed.count() > 0) fps_ = static_cast<float>(points_.size()) / passed.count();
      max_fps_ = std::max(max_fps_, fps_);
      frame.fps = fps_;
      frame.max_fps = max_fps_;
      if (frame.mat.cols > 200) {
        cv::putText(frame.mat, "FPS: " + std::to_string(fps_), cv::Point(10, 20),
                    cv::FONT_HERSHEY_SIMPLEX, 0.5, cv::Scalar(20, 20, 180), 2, 1);
      }
      if (passed.count() > 2) points_.pop_back();
    }
    points_.push_front(now);
  }
};

// Shows frames, each channel's in a window of its own, until Esc; with DEMO_USE_VIDEO_WRITER=1 they
// go to the GStreamer pipeline DEMO_VIDEO_WRITER.
class GuiThread : public MyThread {
 public:
  GuiThread() : queue_(std::make_unique<queue_t>(10)) {
    if (!ENV_PARAM(DEMO_USE_VIDEO_WRITER)) return;
    const cv::Size size(ENV_PARAM(DEMO_VIDEO_WRITER_WIDTH), ENV_PARAM(DEMO_VIDEO_WRITER_HEIGHT));
    video_writer_ = std::make_unique<cv::VideoWriter>(ENV_PARAM(DEMO_VIDEO_WRITER),
                                                      cv::CAP_GSTREAMER, 0, 25., size, true);
    if (!video_writer_->isOpened()) {
      throw std::runtime_error("[VAILIB_DEMO_GST_ERROR] cannot open " +
                               ENV_PARAM(DEMO_VIDEO_WRITER));
    }
  }
  // The one of all channels, as long as somebody has it.
  static std::shared_ptr<GuiThread> instance() {
    static std::weak_ptr<GuiThread> kept;
    auto found = kept.lock();
    if (!found) kept = found = std::make_shared<GuiThread>();
    return found;
  }
  int run() override {
    FrameInfo frame{};
    if (!queue_->pop(frame, kThreadPatience)) return 0;
    if (video_writer_) {
      *video_writer_ << frame.mat;
      return 0;
    }
    cv::imshow("CH-" + std::to_string(frame.channel_id), frame.mat);
    return cv::waitKey(1) == 27 ? 1 : 0;  // Esc
  }
  std::string name() override { return "GUIThread"; }
  queue_t* getQueue() { return queue_.get(); }

  std::unique_ptr<queue_t> queue_;
  std::unique_ptr<cv::VideoWriter> video_writer_;
};

// What the command line of a program with videos says.
static std::vector<int> g_num_of_threads;
static std::vector<std::string> g_avi_file;

inline void usage_video(const char* program) {
  std::cout << "usage: " << program << " -t <num_of_threads> <video file name>" << std::endl;
}

// Of "-t THREADS ... FILE ..."; ends the program where they are wrong.
inline void parse_opt(int argc, char* argv[], int start_pos = 1) {
  optind = start_pos;
  for (int option = 0; (option = getopt(argc, argv, "c:t:")) != -1;) {
    if (option == 't') {
      g_num_of_threads.push_back(std::max(1, std::atoi(optarg)));
    } else if (option != 'c') {
      usage_video(argv[0]);
      std::exit(1);
    }
  }
  g_avi_file.insert(g_avi_file.end(), argv + std::min(optind, argc), argv + argc);
  if (g_avi_file.empty()) {
    usage_video(argv[0]);
    std::exit(1);
  }
  if (g_num_of_threads.empty()) g_num_of_threads.push_back(1);
}

// A video with its threads, which change frames by filters of their own.
class Channel {
 public:
  Channel(std::size_t ch, const std::string& avi_file,
          const std::function<std::unique_ptr<Filter>()>& filter, int n_of_threads)
      : decode_queue(std::make_unique<queue_t>(5)),
        decode_thread(std::make_unique<DecodeThread>(static_cast<int>(ch), avi_file,
                                                     decode_queue.get())),
        sorting_queue(std::make_unique<queue_t>(5 * n_of_threads)) {
    const auto suffix = avi_file + "-" + std::to_string(ch);
    for (int i = 0; i < n_of_threads; ++i) {
      dpu_thread.push_back(std::make_unique<DpuThread>(
          filter(), decode_queue.get(), sorting_queue.get(), suffix + "/" + std::to_string(i)));
    }
    sorting_thread = std::make_unique<SortingThread>(
        sorting_queue.get(), GuiThread::instance()->getQueue(), suffix);
  }

  std::unique_ptr<queue_t> decode_queue;
  std::unique_ptr<DecodeThread> decode_thread;
  std::unique_ptr<queue_t> sorting_queue;
  std::vector<std::unique_ptr<DpuThread>> dpu_thread;
  std::unique_ptr<SortingThread> sorting_thread;
};

}  // namespace ai
}  // namespace vitis
