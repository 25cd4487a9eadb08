// SPDX-License-Identifier: Apache-2.0
// What threads of programs with videos and of those with lists of pictures share.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "vitis/ai/bounded_queue.hpp"

namespace vitis {
namespace ai {

// How long a thread waits for a queue before it looks whether it is to end.
constexpr std::chrono::milliseconds kThreadPatience{200};

// What is printed of an exception that ends a thread.
enum class ThreadMessage { kPlain, kWithName };

// Runs again and again until it is stopped or run() is not 0. What run() throws is printed and
// stops all threads of the class.
template <ThreadMessage kMessage>
class RepeatingThread {
 public:
  RepeatingThread() { all_threads().push_back(this); }
  virtual ~RepeatingThread() {
    auto& all = all_threads();
    all.erase(std::remove(all.begin(), all.end(), this), all.end());
  }
  RepeatingThread(const RepeatingThread&) = delete;
  RepeatingThread& operator=(const RepeatingThread&) = delete;

  virtual int run() = 0;
  virtual std::string name() = 0;

  void start() {
    thread_ = std::make_unique<std::thread>([this] { main(); });
  }
  void stop() { stop_ = true; }
  void wait() {
    if (thread_ && thread_->joinable()) thread_->join();
  }
  bool is_stopped() { return stop_; }

  static std::vector<RepeatingThread*>& all_threads() {
    static std::vector<RepeatingThread*> threads;
    return threads;
  }
  static void signal_handler(int) { stop_all(); }
  static void start_all() {
    for (auto* thread : all_threads()) thread->start();
  }
  static void stop_all() {
    for (auto* thread : all_threads()) thread->stop();
  }
  static void wait_all() {
    for (auto* thread : all_threads()) thread->wait();
  }
  // Whether one has thrown.
  static std::atomic<bool>& failed() {
    static std::atomic<bool> value{false};
    return value;
  }

  std::atomic<bool> stop_{false};
  std::unique_ptr<std::thread> thread_;

 protected:
  // Waits for room, unless the thread is stopped; what run() returns then.
  template <typename Thing>
  int put(BoundedQueue<Thing>& queue, const Thing& thing) {
    while (!queue.push(thing, kThreadPatience)) {
      if (is_stopped()) return -1;
    }
    return 0;
  }

 private:
  void main() {
    try {
      while (!stop_ && run() == 0) {
      }
    } catch (const std::exception& error) {
      if (kMessage == ThreadMessage::kWithName) std::cerr << name() << ": ";
      std::cerr << error.what() << std::endl;
      failed() = true;
      stop_all();
    }
    stop_ = true;
  }
};

}  // namespace ai
}  // namespace vitis
