// SPDX-License-Identifier: Apache-2.0
// Tasks over runners.
#pragma once

#include <memory>
#include <string>

#include "vitis/ai/dpu_task.hpp"

namespace opendpu {
namespace tasks {

// A task that runs DPU subgraphs one by one, or the whole graph as its only kernel.
std::unique_ptr<vitis::ai::DpuTask> make_task(const std::string& name, xir::Attrs* attrs,
                                              bool whole_graph);

}  // namespace tasks
}  // namespace opendpu
