// SPDX-License-Identifier: Apache-2.0
// A buffer as a pointer, a size and a tensor.
#pragma once

#include <stdexcept>
#include <type_traits>

#include "vart/tensor_buffer.hpp"
#include "xir/tensor/tensor.hpp"

namespace vart {

// Elements of type T (float, std::int8_t, std::uint8_t; void for any) in memory of somebody else.
template <typename T = void>
struct simple_tensor_buffer_t {
  // Throws std::invalid_argument where the elements have another size than T.
  static simple_tensor_buffer_t create(TensorBuffer* t) {
    const auto* tensor = t->get_tensor();
    if constexpr (!std::is_void_v<T>) {
      if (tensor->get_data_type().bit_width != 8 * static_cast<int>(sizeof(T))) {
        throw std::invalid_argument("tensor " + tensor->get_name() + " has elements of type " +
                                    tensor->get_data_type().to_string());
      }
    }
    const auto memory = t->data(std::vector<std::int32_t>(tensor->get_shape().size(), 0));
    return {reinterpret_cast<T*>(memory.first), memory.second, tensor};
  }

  simple_tensor_buffer_t(T* d, std::size_t s, const xir::Tensor* t)
      : data(d), mem_size(s), tensor(t) {}

  // From a buffer of anything; what is in it is the caller's business.
  template <typename U, typename = std::enable_if_t<std::is_void_v<U> && !std::is_void_v<T>>>
  simple_tensor_buffer_t(const simple_tensor_buffer_t<U>& other)
      : data(static_cast<T*>(other.data)), mem_size(other.mem_size), tensor(other.tensor) {}

  T* data;
  std::size_t mem_size;  // bytes
  const xir::Tensor* tensor;
};

}  // namespace vart
