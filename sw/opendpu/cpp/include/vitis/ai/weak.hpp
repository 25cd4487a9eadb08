// SPDX-License-Identifier: Apache-2.0
// Objects that all users of a program share, made for the first and gone with the last:
//   WeakStore<std::string, Model>::create("name", 1, 2), WeakSingleton<Log>::create()
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <utility>

namespace vitis {
namespace ai {

// One for each key.
template <typename K, typename T>
struct WeakStore {
  template <typename... Args>
  static std::shared_ptr<T> create(const K& key, Args&&... args) {
    static std::mutex mutex;
    static std::map<K, std::weak_ptr<T>> made;
    const std::lock_guard<std::mutex> lock(mutex);
    auto shared = made[key].lock();
    if (!shared) made[key] = shared = std::make_shared<T>(std::forward<Args>(args)...);
    return shared;
  }
};

template <typename T>
struct WeakSingleton {
  template <typename... Args>
  static std::shared_ptr<T> create(Args&&... args) {
    return WeakStore<int, T>::create(0, std::forward<Args>(args)...);
  }
};

}  // namespace ai
}  // namespace vitis
