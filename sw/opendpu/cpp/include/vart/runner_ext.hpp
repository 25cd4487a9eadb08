// SPDX-License-Identifier: Apache-2.0
// Runners that own buffers.
#pragma once

#include <cmath>
#include <stdexcept>

#include "vart/runner.hpp"
#include "xir/tensor/tensor.hpp"

namespace vart {

class RunnerExt : public Runner {
 public:
  RunnerExt() = default;
  RunnerExt(const RunnerExt&) = delete;
  RunnerExt& operator=(const RunnerExt&) = delete;

  // The mode is attrs["mode"], if there is one.
  static std::unique_ptr<RunnerExt> create_runner(const xir::Subgraph* subgraph,
                                                  xir::Attrs* attrs);

  // A buffer for each tensor; always the same ones.
  virtual std::vector<TensorBuffer*> get_inputs() = 0;
  virtual std::vector<TensorBuffer*> get_outputs() = 0;
};

// What a float is multiplied by to become an input, and a fixed-point output to become a float.
inline float get_input_scale(const xir::Tensor* input_tensor) {
  if (!input_tensor) throw std::invalid_argument("vart::get_input_scale: the tensor is null");
  return std::exp2f(static_cast<float>(input_tensor->get_attr<int>("fix_point")));
}
inline float get_output_scale(const xir::Tensor* output_tensor) {
  if (!output_tensor) throw std::invalid_argument("vart::get_output_scale: the tensor is null");
  return std::exp2f(-static_cast<float>(output_tensor->get_attr<int>("fix_point")));
}
std::vector<float> get_input_scale(std::vector<const xir::Tensor*> input_tensors);
std::vector<float> get_output_scale(std::vector<const xir::Tensor*> output_tensors);

}  // namespace vart
