// SPDX-License-Identifier: Apache-2.0
// Tensors as the AI Library's tasks hand them out: memory of a task with its sizes and scale.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace vitis {
namespace ai {
namespace library {

enum DTYPE { DT_INT8 = 0, DT_FLOAT = 1 };

// One tensor; channels last. The memory is the task's, and lives as long as it.
struct Tensor {
  std::size_t size = 0;  // bytes of all samples
  std::size_t batch = 1;
  std::size_t height = 1;
  std::size_t width = 1;
  std::size_t channel = 1;
  std::int8_t fixpos = 0;  // real values are elements times 2^-fixpos; 0 for floats
  DTYPE dtype = DT_INT8;
  std::string name;
  std::vector<void*> data;

  // Where a sample begins.
  void*& get_data(std::size_t batch_index) { return data.at(batch_index); }
  void* const& get_data(std::size_t batch_index) const { return data.at(batch_index); }
};

struct InputTensor : Tensor {};
struct OutputTensor : Tensor {};

// What real values are multiplied by to become elements of an input, and elements of an output to
// become real values.
inline float tensor_scale(const InputTensor& tensor) { return std::exp2f(tensor.fixpos); }
inline float tensor_scale(const OutputTensor& tensor) {
  return std::exp2f(-static_cast<float>(tensor.fixpos));
}

}  // namespace library
}  // namespace ai
}  // namespace vitis
