// SPDX-License-Identifier: Apache-2.0
// Objects of the C interface for those of C++, and back.
#pragma once

#include <algorithm>

namespace opendpu {

template <typename T>
T* object(void* pointer) {
  return static_cast<T*>(pointer);
}

template <typename T>
void* pointer(const T* object) {
  return const_cast<T*>(object);
}

template <typename Objects>
void copy_pointers(const Objects& objects, void** to) {
  std::transform(objects.begin(), objects.end(), to, [](auto* one) { return pointer(one); });
}

template <typename Objects, typename Callback>
void each(const Objects& objects, Callback callback, void* data) {
  for (auto* one : objects) callback(data, pointer(one));
}

}  // namespace opendpu
