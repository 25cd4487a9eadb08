// SPDX-License-Identifier: Apache-2.0
// Runners that know the scales of their tensors, as programs for Vitis AI 1 have them.
#pragma once

#include <vector>

#include "vart/runner_ext.hpp"

namespace vart {
namespace dpu {

// What create_runner and DpuRunnerFactory make is also one of these.
class DpuRunnerExt : public RunnerExt {
 public:
  // What a float is multiplied by to become an input, and an output to become a float, tensor by
  // tensor. Throws std::runtime_error where a tensor has no fix_point.
  virtual std::vector<float> get_input_scale() const = 0;
  virtual std::vector<float> get_output_scale() const = 0;
};

}  // namespace dpu
}  // namespace vart
