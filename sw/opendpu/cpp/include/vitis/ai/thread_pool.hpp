// SPDX-License-Identifier: Apache-2.0
// Threads that call functions for a program: vitis::ai::ThreadPool::create(4)->async(f, 1, 2).get().
#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <queue>
#include <stdexcept>
#include <thread>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace vitis {
namespace ai {

class ThreadPool {
 public:
  // Throws std::invalid_argument for no threads.
  static std::unique_ptr<ThreadPool> create(std::size_t num_of_threads) {
    return std::make_unique<ThreadPool>(num_of_threads);
  }

  explicit ThreadPool(std::size_t num_of_threads) {
    if (num_of_threads == 0) throw std::invalid_argument("a thread pool needs a thread");
    for (std::size_t i = 0; i < num_of_threads; ++i) {
      threads_.emplace_back([this] { work(); });
    }
  }
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // Waits for all calls.
  ~ThreadPool() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ended_ = true;
    }
    there_is_one_.notify_all();
    for (auto& thread : threads_) thread.join();
  }

  std::size_t size() const { return threads_.size(); }

  // Calls a function, which may be one that can be moved only, when a thread is free. The future has
  // what it returns or throws.
  template <typename Function, typename... Arguments>
  auto async(Function&& function, Arguments&&... arguments) {
    using Result = std::invoke_result_t<std::decay_t<Function>&, std::decay_t<Arguments>&...>;
    auto call = std::make_shared<std::packaged_task<Result()>>(
        [function = std::decay_t<Function>(std::forward<Function>(function)),
         arguments = std::make_tuple(std::forward<Arguments>(arguments)...)]() mutable {
          return std::apply(function, arguments);
        });
    auto made = call->get_future();
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      calls_.push([call] { (*call)(); });
    }
    there_is_one_.notify_one();
    return made;
  }

 private:
  void work() {
    for (;;) {
      std::unique_lock<std::mutex> lock(mutex_);
      there_is_one_.wait(lock, [this] { return ended_ || !calls_.empty(); });
      if (calls_.empty()) return;
      const auto call = std::move(calls_.front());
      calls_.pop();
      lock.unlock();
      call();
    }
  }

  std::mutex mutex_;
  std::condition_variable there_is_one_;
  std::queue<std::function<void()>> calls_;
  bool ended_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace ai
}  // namespace vitis
