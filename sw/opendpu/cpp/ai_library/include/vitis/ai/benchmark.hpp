// SPDX-License-Identifier: Apache-2.0
// The main function of programs that measure how many images a second a model takes.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <iostream>
#include <memory>
#include <opencv2/core.hpp>
#include <opencv2/imgcodecs.hpp>
#include <opencv2/imgproc.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "UniLog/UniLog.hpp"
#include "vitis/ai/time_measure.hpp"

namespace vitis {
namespace ai {
namespace benchmark {

struct Arguments {
  int threads = 1;
  int seconds = 30;
  std::string report;
  std::string list;
};

inline Arguments parse(int argc, char* argv[]) {
  Arguments given;
  for (int option = 0; (option = getopt(argc, argv, "t:s:l:")) != -1;) {
    if (option == 't') given.threads = std::max(1, std::atoi(optarg));
    if (option == 's') given.seconds = std::max(1, std::atoi(optarg));
    if (option == 'l') given.report = optarg;
    if (option == '?') std::exit(1);
  }
  if (optind >= argc) {
    std::cerr << "usage: " << argv[0]
              << " [-l <report file>] [-t <threads>] [-s <seconds>] <image list file>\n";
    std::exit(1);
  }
  given.list = argv[argc - 1];
  return given;
}

// The images that a file lists, one a line, in the size that a model takes; names count from where
// the list is.
inline std::vector<cv::Mat> images(const std::string& list, int width, int height) {
  std::ifstream file(list);
  std::vector<cv::Mat> made;
  for (std::string line; std::getline(file, line);) {
    if (line.empty()) continue;
    const auto path = std::filesystem::path(list).parent_path() / line;
    const auto image = cv::imread(std::filesystem::exists(path) ? path.string() : line);
    if (image.empty()) throw std::runtime_error("cannot read image " + line);
    made.emplace_back();
    cv::resize(image, made.back(), cv::Size(width, height));
  }
  if (made.empty()) {
    throw std::runtime_error("[VAILIB_BENCHMARK_LIST_EMPTY] there are no images in " + list);
  }
  return made;
}

struct Count {
  long images = 0;
  double microseconds = 0;
  double waiting = 0;  // microseconds of these for the DPU
};

}  // namespace benchmark

// Runs a model of its own in each thread for a time, and prints the images a second, with one
// thread also the microseconds that run took on average, and those of them that it waited for the
// DPU: FPS=..., E2E_MEAN=..., DPU_MEAN=...
template <typename T>
int main_for_performance(int argc, char* argv[], T factory_method) {
  using Clock = std::chrono::steady_clock;
  const auto given = benchmark::parse(argc, argv);
  std::vector<decltype(factory_method())> models;
  for (int i = 0; i < given.threads; ++i) models.push_back(factory_method());
  const auto images = benchmark::images(given.list, models[0]->getInputWidth(),
                                        models[0]->getInputHeight());
  const auto start = Clock::now();
  const auto end = start + std::chrono::seconds(given.seconds);
  std::vector<std::future<benchmark::Count>> running;
  for (auto& model : models) {
    running.push_back(std::async(std::launch::async, [&images, &model, end] {
      benchmark::Count count;
      while (Clock::now() < end) {
        TimeMeasure::getThreadLocalForDpu().reset();
        const auto before = Clock::now();
        std::vector<cv::Mat> some;
        for (std::size_t i = 0; i < model->get_input_batch(); ++i) {
          some.push_back(images[count.images++ % images.size()]);
        }
        model->run(some);
        const std::chrono::duration<double, std::micro> passed = Clock::now() - before;
        count.microseconds += passed.count();
        count.waiting += TimeMeasure::getThreadLocalForDpu().get();
      }
      return count;
    }));
  }
  benchmark::Count all;
  for (auto& thread : running) {
    const auto count = thread.get();
    all.images += count.images;
    all.microseconds += count.microseconds;
    all.waiting += count.waiting;
  }
  const std::chrono::duration<double> passed = Clock::now() - start;
  std::ofstream file;
  if (!given.report.empty()) file.open(given.report);
  std::ostream& report = given.report.empty() ? std::cout : file;
  report << "FPS=" << static_cast<double>(all.images) / passed.count() << "\n";
  if (given.threads == 1) {
    report << "E2E_MEAN=" << all.microseconds / static_cast<double>(all.images) << "\n";
    report << "DPU_MEAN=" << all.waiting / static_cast<double>(all.images) << "\n";
  }
  report << std::flush;
  return report ? 0 : 1;
}

}  // namespace ai
}  // namespace vitis
