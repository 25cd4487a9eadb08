// SPDX-License-Identifier: Apache-2.0
// Runners by the names of files and subgraphs.
#pragma once

#include <memory>
#include <string>

#include "vart/dpu/dpu_runner_ext.hpp"
#include "vart/runner.hpp"
#include "xir/attrs/attrs.hpp"
#include "xir/graph/subgraph.hpp"

namespace vart {
namespace dpu {

class DpuRunnerFactory {
 public:
  // For the DPU subgraph of a file that has a name. Throws std::runtime_error where there is none,
  // with the names that there are.
  static std::unique_ptr<Runner> create_dpu_runner(const std::string& file_name,
                                                   const std::string& kernel_name);
  // See Runner::create_runner_with_attrs.
  static std::unique_ptr<Runner> create_dpu_runner(const xir::Subgraph* subgraph,
                                                   xir::Attrs* attrs = nullptr);
};

}  // namespace dpu
}  // namespace vart
