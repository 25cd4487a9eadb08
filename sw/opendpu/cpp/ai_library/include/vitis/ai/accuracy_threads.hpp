// SPDX-License-Identifier: Apache-2.0
// Threads of programs that write down what a model finds in a list of pictures; see
// demo_accuracy.hpp. Programs derive from AccThread, and from ReadImagesThread where their pictures
// are no pictures.
#pragma once

#include <atomic>
#include <fstream>
#include <iostream>
#include <memory>
#include <opencv2/core.hpp>
#include <opencv2/imgcodecs.hpp>
#include <stdexcept>
#include <string>

#include "UniLog/UniLog.hpp"
#include "vitis/ai/env_config.hpp"
#include "vitis/ai/repeating_thread.hpp"

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

using MyThread = RepeatingThread<ThreadMessage::kWithName>;

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
      if (last.frame_id != 0 && put(*queue_, last) != 0) return -1;
      last = {++frame_id_, image, get_single_name(line), image.cols, image.rows};
    }
    if (last.frame_id == 0) throw std::runtime_error("no images in list " + images_list_file_);
    g_last_frame_id = static_cast<int>(frame_id_);
    put(*queue_, last);
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
