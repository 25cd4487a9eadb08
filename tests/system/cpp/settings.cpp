// SPDX-License-Identifier: Apache-2.0
// Settings from the environment, times of parts, and threads: headers alone, without a library.
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "vitis/ai/env_config.hpp"
#include "vitis/ai/profiling.hpp"
#include "vitis/ai/thread_pool.hpp"

DEF_ENV_PARAM(SAMPLE_LOOPS, "3");
DEF_ENV_PARAM_2(SAMPLE_SCALE, "0.5", double);
DEF_ENV_PARAM_2(SAMPLE_FOLDER, "two words", std::string);
DEF_ENV_PARAM_2(SAMPLE_SIZES, "1,20", std::vector<int>);

// Sums up what many calls return, and tells what one throws.
static void threads() {
  std::vector<std::future<int>> sums;
  int seen = 0;
  {
    const auto pool = vitis::ai::ThreadPool::create(3);
    for (int i = 0; i < 100; ++i) {
      sums.push_back(pool->async([](int a, int b) { return a + b; }, i, 1));
    }
    // What can be moved only, as buffers of a job.
    auto number = std::make_unique<int>(7);
    sums.push_back(pool->async([number = std::move(number)]() mutable { return *number; }));
    auto failed = pool->async([] { throw std::runtime_error("failed"); });
    try {
      failed.get();
    } catch (const std::runtime_error& error) {
      std::cout << error.what() << " " << pool->size() << " ";
    }
    pool->async([&seen] { ++seen; });
  }
  int sum = 0;
  for (auto& one : sums) sum += one.get();
  std::cout << sum << " " << seen;
  try {
    vitis::ai::ThreadPool::create(0);
  } catch (const std::invalid_argument& error) {
    std::cout << " " << error.what();
  }
}

int main(int argc, char*[]) {
  if (argc > 1) return threads(), 0;
  __TIC__(everything)
  std::cout << ENV_PARAM(SAMPLE_LOOPS) + 1 << "|" << ENV_PARAM(SAMPLE_SCALE) << "|"
            << ENV_PARAM(SAMPLE_FOLDER);
  for (const int size : ENV_PARAM(SAMPLE_SIZES)) std::cout << "|" << size;
  __TIC__(inside)
  __TOC__(inside)
  __TOC__(everything)
}
