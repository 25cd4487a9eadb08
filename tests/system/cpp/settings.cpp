// SPDX-License-Identifier: Apache-2.0
// Settings from the environment, times of parts, threads, places in memory, shared objects: headers
// alone, without a library.
#include <memory>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "vitis/ai/dim_calc.hpp"
#include "vitis/ai/env_config.hpp"
#include "vitis/ai/performance_test.hpp"
#include "vitis/ai/profiling.hpp"
#include "vitis/ai/thread_pool.hpp"
#include "vitis/ai/weak.hpp"

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

// Walks through a map with gaps behind its rows, run by run.
static void places() {
  const vitis::ai::DimCalc dense(std::vector<int>{2, 3, 4});
  for (const int i : dense.index(17)) std::cout << i;
  std::cout << " " << dense.offset(std::vector<int>{1, 1, 1}) << " "
            << dense.next({0, 1, 1}).second << "|";
  const vitis::ai::DimCalc rows({2, 3, 4}, {32, 8, 1});
  std::vector<std::size_t> at{0, 1, 1};
  for (auto [next, run] = rows.next(at); run; std::tie(next, run) = rows.next(at = next)) {
    std::cout << rows.offset(at) << "+" << run << " ";
  }
}

struct Shared {
  explicit Shared(int n) : number(n) {}
  int number;
};

// One object a key while somebody has it, a new one afterwards.
static void shared() {
  using Store = vitis::ai::WeakStore<std::string, Shared>;
  auto first = Store::create("a", 1);
  std::cout << (Store::create("a", 2) == first) << Store::create("b", 3)->number;
  first.reset();
  std::cout << Store::create("a", 4)->number;
  std::cout << vitis::ai::WeakSingleton<Shared>::create(5)->number;
}

struct Step : vitis::ai::PerformanceTestRunner {
  explicit Step(std::size_t f) : fails(f) {}
  void step(std::size_t idx, int thread_id) override {
    if (idx == fails) throw std::runtime_error("step " + std::to_string(thread_id));
    done = idx + 1;
  }
  std::size_t get_result() override { return done; }
  std::size_t fails, done = 0;
};

static int steps(int argc, char* argv[]) {
  std::vector<std::unique_ptr<vitis::ai::PerformanceTestRunner>> runners;
  runners.push_back(std::make_unique<Step>(-1));
  runners.push_back(std::make_unique<Step>(argc > 2 ? 3 : -1));
  try {
    return vitis::ai::PerformanceTest().main(argc, argv, std::move(runners));
  } catch (const std::runtime_error& error) {
    std::cout << error.what();
    return 1;
  }
}

int main(int argc, char* argv[]) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "threads") return threads(), 0;
  if (what == "places") return places(), 0;
  if (what == "shared") return shared(), 0;
  if (what == "steps") return steps(argc, argv);
  __TIC__(everything)
  std::cout << ENV_PARAM(SAMPLE_LOOPS) + 1 << "|" << ENV_PARAM(SAMPLE_SCALE) << "|"
            << ENV_PARAM(SAMPLE_FOLDER);
  for (const int size : ENV_PARAM(SAMPLE_SIZES)) std::cout << "|" << size;
  __TIC__(inside)
  __TOC__(inside)
  __TOC__(everything)
}
