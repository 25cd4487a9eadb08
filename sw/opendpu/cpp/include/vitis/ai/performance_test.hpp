// SPDX-License-Identifier: Apache-2.0
// Counts what threads get done in a time, SLEEP_MS milliseconds (60000):
//   class Job : public vitis::ai::PerformanceTestRunner { step, get_result };
//   vitis::ai::PerformanceTest().main(argc, argv, std::move(jobs));
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <iostream>
#include <memory>
#include <thread>
#include <vector>

#include "vitis/ai/env_config.hpp"

namespace vitis {
namespace ai {

class PerformanceTestRunner {
 public:
  PerformanceTestRunner() = default;
  PerformanceTestRunner(const PerformanceTestRunner&) = delete;
  PerformanceTestRunner& operator=(const PerformanceTestRunner&) = delete;
  virtual ~PerformanceTestRunner() = default;

  // Does something for the idx-th time.
  virtual void step(std::size_t idx, int thread_id) = 0;
  // How many pictures that were, in all.
  virtual std::size_t get_result() = 0;
};

class PerformanceTest {
 public:
  // Gives each runner a thread; returns 0. Throws what a step throws.
  int main(int, char*[], std::vector<std::unique_ptr<PerformanceTestRunner>> runners) {
    using Clock = std::chrono::steady_clock;
    std::atomic<bool> stop{false};
    std::vector<std::exception_ptr> failures(runners.size());
    std::vector<std::thread> threads;
    const auto start = Clock::now();
    for (std::size_t number = 0; number < runners.size(); ++number) {
      threads.emplace_back([&, number] {
        try {
          for (std::size_t idx = 0; !stop; ++idx) {
            runners[number]->step(idx, static_cast<int>(number));
          }
        } catch (...) {
          failures[number] = std::current_exception();
          stop = true;
        }
      });
    }
    const auto end = start + std::chrono::milliseconds(env_param<int>("SLEEP_MS", "60000"));
    while (!stop && Clock::now() < end) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    stop = true;
    for (auto& thread : threads) thread.join();
    const std::chrono::duration<double> taken = Clock::now() - start;
    for (const auto& failure : failures) {
      if (failure) std::rethrow_exception(failure);
    }
    std::size_t frames = 0;
    for (const auto& runner : runners) frames += runner->get_result();
    std::cout << "FPS= " << frames / taken.count() << " number_of_frames= " << frames
              << " time= " << taken.count() << " seconds." << std::endl;
    return 0;
  }
};

}  // namespace ai
}  // namespace vitis
