// SPDX-License-Identifier: Apache-2.0
// A queue between threads that holds so many things and no more.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <utility>

namespace vitis {
namespace ai {

template <typename T>
class BoundedQueue {
 public:
  explicit BoundedQueue(std::size_t capacity) : capacity_(capacity) {}

  std::size_t capacity() const { return capacity_; }
  std::size_t size() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return things_.size();
  }
  bool empty() const { return size() == 0; }

  // Waits for room.
  void push(const T& thing) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return has_room(); });
    add(thing);
  }
  // Tells whether there was room in time.
  bool push(const T& thing, const std::chrono::milliseconds& timeout) {
    std::unique_lock<std::mutex> lock(mutex_);
    if (!changed_.wait_for(lock, timeout, [this] { return has_room(); })) return false;
    add(thing);
    return true;
  }

  // Waits for something; the first that came.
  void pop(T& thing) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return !things_.empty(); });
    take(things_.begin(), thing);
  }
  // Tells whether there was something in time.
  bool pop(T& thing, const std::chrono::milliseconds& timeout) {
    return pop(thing, [](const T&) { return true; }, timeout);
  }
  // The first that fits.
  bool pop(T& thing, const std::function<bool(const T&)>& fits,
           const std::chrono::milliseconds& timeout) {
    std::unique_lock<std::mutex> lock(mutex_);
    auto found = things_.end();
    const auto there = [&] {
      found = std::find_if(things_.begin(), things_.end(), fits);
      return found != things_.end();
    };
    if (!changed_.wait_for(lock, timeout, there)) return false;
    take(found, thing);
    return true;
  }

  // As pop, but it stays.
  bool top(T& thing, const std::chrono::milliseconds& timeout) {
    std::unique_lock<std::mutex> lock(mutex_);
    if (!changed_.wait_for(lock, timeout, [this] { return !things_.empty(); })) return false;
    thing = things_.front();
    return true;
  }

 private:
  bool has_room() const { return things_.size() < capacity_; }
  void add(const T& thing) {
    things_.push_back(thing);
    changed_.notify_all();
  }
  void take(typename std::deque<T>::iterator place, T& thing) {
    thing = std::move(*place);
    things_.erase(place);
    changed_.notify_all();
  }

  const std::size_t capacity_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<T> things_;
};

}  // namespace ai
}  // namespace vitis
