// SPDX-License-Identifier: Apache-2.0
// The main function of programs that write down what a model finds in a list of pictures.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iostream>
#include <memory>
#include <opencv2/core.hpp>
#include <opencv2/highgui.hpp>
#include <opencv2/imgproc.hpp>
#include <string>
#include <utility>
#include <vector>

#include "vitis/ai/accuracy_threads.hpp"

namespace vitis {
namespace ai {
namespace accuracy {

struct Arguments {
  int threads = 1;
  std::string list;
};

// Of "... LIST ... -t THREADS"; ends the program where they are wrong.
inline Arguments parse(int argc, char* argv[], int start) {
  Arguments given;
  optind = start;
  bool good = true;
  for (int option = 0; good && (option = getopt(argc, argv, "c:t:")) != -1;) {
    if (option == 't') given.threads = std::max(1, std::atoi(optarg));
    good = option != '?';
  }
  if (!good || optind >= argc) {
    std::cout << "usage: " << argv[0]
              << " <model name> <input image list file> <output file name> -t <num_of_threads>"
              << std::endl;
    std::exit(1);
  }
  given.list = argv[optind];
  return given;
}

// A model of its own for each thread.
template <typename Model>
class DpuRunThread : public MyThread {
 public:
  DpuRunThread(std::unique_ptr<Model>&& model, queue_t& from, queue_dpu& to, int number)
      : model_(std::move(model)), from_(from), to_(to), number_(number) {}

  int run() override {
    FrameInfo frame{};
    if (!from_.pop(frame, kThreadPatience)) return 0;
    auto results = model_->run(std::vector<cv::Mat>{frame.mat});
    using Result = typename decltype(results)::value_type;
    const DpuResultInfo found{frame.frame_id,
                              std::make_shared<Result>(std::move(results.at(0))),
                              frame.single_name, frame.w, frame.h};
    return put(to_, found);
  }
  std::string name() override { return "DPU-" + std::to_string(number_); }

 private:
  std::unique_ptr<Model> model_;
  queue_t& from_;
  queue_dpu& to_;
  int number_;
};

// Brings results into the order of pictures.
class SortThread : public MyThread {
 public:
  SortThread(queue_dpu& from, queue_dpu& to) : from_(from), to_(to) {}

  int run() override {
    DpuResultInfo found{};
    const auto fits = [this](const DpuResultInfo& other) { return other.frame_id <= next_; };
    if (!from_.pop(found, fits, kThreadPatience)) return 0;
    ++next_;
    return put(to_, found);
  }
  std::string name() override { return "SORT"; }

 private:
  queue_dpu& from_;
  queue_dpu& to_;
  unsigned long next_ = 1;
};

}  // namespace accuracy

// Runs a model on all pictures of a list, and hands what it finds to acc_thread, until that ends.
// Arguments before start_pos are the program's own. Returns 1 where something went wrong.
template <typename FactoryMethod>
int main_for_accuracy_demo(int argc, char* argv[], const FactoryMethod& factory_method,
                           std::shared_ptr<AccThread> acc_thread, int start_pos = 1,
                           std::shared_ptr<ReadImagesThread> read_thread = nullptr) {
  using Model = typename decltype(factory_method())::element_type;
  const auto given = accuracy::parse(argc, argv, start_pos);
  std::signal(SIGINT, MyThread::signal_handler);
  queue_t images(50);
  queue_dpu found(500 * static_cast<std::size_t>(given.threads));
  if (read_thread) {
    read_thread->set_filename_and_queue(given.list, &images);
  } else {
    read_thread = std::make_shared<ReadImagesThread>(given.list, &images);
  }
  std::vector<std::unique_ptr<accuracy::DpuRunThread<Model>>> runs;
  for (int i = 0; i < given.threads; ++i) {
    runs.push_back(std::make_unique<accuracy::DpuRunThread<Model>>(factory_method(), images, found, i));
  }
  accuracy::SortThread sort(found, *acc_thread->getQueue());
  MyThread::start_all();
  acc_thread->wait();
  MyThread::stop_all();
  MyThread::wait_all();
  return MyThread::failed() ? 1 : 0;
}

}  // namespace ai
}  // namespace vitis
