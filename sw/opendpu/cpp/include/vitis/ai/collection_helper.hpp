// SPDX-License-Identifier: Apache-2.0
// Functions on vectors.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace vitis {
namespace ai {

// What a function gives for every element.
template <typename T, typename F>
auto vec_map(const std::vector<T>& values, F function) {
  std::vector<std::decay_t<decltype(function(values.front()))>> made;
  made.reserve(values.size());
  for (const auto& value : values) made.push_back(function(value));
  return made;
}

// The pointers that unique ones hold.
template <typename T>
std::vector<T*> vector_unique_ptr_get(const std::vector<std::unique_ptr<T>>& values) {
  std::vector<T*> made;
  for (const auto& value : values) made.push_back(value.get());
  return made;
}
template <typename T>
std::vector<const T*> vector_unique_ptr_get_const(const std::vector<std::unique_ptr<T>>& values) {
  std::vector<const T*> made;
  for (const auto& value : values) made.push_back(value.get());
  return made;
}

}  // namespace ai
}  // namespace vitis
