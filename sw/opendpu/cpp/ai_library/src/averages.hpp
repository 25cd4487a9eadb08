// SPDX-License-Identifier: Apache-2.0
// Networks that average whole feature maps between two DPU subgraphs, on the CPU.
#pragma once

#include <cstddef>
#include <vector>

#include "vitis/ai/configurable_dpu_task.hpp"

namespace opendpu {
namespace tasks {

// The average of each channel of a sample.
std::vector<float> averages(const vitis::ai::library::OutputTensor& output, std::size_t sample);

// Runs the first DPU subgraph; then those behind it, each with the averages of the channels of the
// first's first output as its input. A network whose average the DPU takes has one subgraph only.
// Throws std::runtime_error where an input has another size.
void run_over_averages(vitis::ai::ConfigurableDpuTask& task);

}  // namespace tasks
}  // namespace opendpu
