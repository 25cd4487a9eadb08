// SPDX-License-Identifier: Apache-2.0
// Runners of whole graphs, custom ops among them.
#pragma once

#include <memory>

#include "vart/runner_ext.hpp"
#include "xir/graph/graph.hpp"

namespace vitis {
namespace ai {

class GraphRunner {
 public:
  // DPU subgraphs run on the device that the environment chooses, the others on the CPU. Throws
  // std::runtime_error where nothing computes an op.
  static std::unique_ptr<vart::RunnerExt> create_graph_runner(const xir::Graph* graph,
                                                              xir::Attrs* attrs);
};

}  // namespace ai
}  // namespace vitis
