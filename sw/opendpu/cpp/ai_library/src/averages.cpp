// SPDX-License-Identifier: Apache-2.0
// Networks that average whole feature maps between two DPU subgraphs, on the CPU.
#include "averages.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

#include "outputs.hpp"

namespace opendpu {
namespace tasks {
namespace {

void write(const std::vector<float>& reals, const OutputTensor& source, const InputTensor& target) {
  if (target.size / target.batch != reals.size()) {
    throw std::runtime_error(source.name + " has " + std::to_string(reals.size()) +
                             " channels, but the subgraph behind it takes " +
                             std::to_string(target.size / target.batch) + " values");
  }
  auto* elements = static_cast<std::int8_t*>(target.get_data(0));
  const float scale = tensor_scale(target);
  std::transform(reals.begin(), reals.end(), elements, [scale](float value) {
    return static_cast<std::int8_t>(std::clamp(std::round(value * scale), -128.f, 127.f));
  });
}

}  // namespace

std::vector<float> averages(const OutputTensor& output, std::size_t sample) {
  const auto all = values(output, sample);
  std::vector<float> made(output.channel);
  for (std::size_t i = 0; i < all.size(); ++i) made[i % output.channel] += all[i];
  for (auto& sum : made) sum /= static_cast<float>(output.height * output.width);
  return made;
}

void run_over_averages(vitis::ai::ConfigurableDpuTask& task) {
  task.run(0);
  const auto inputs = task.getInputTensor();
  if (inputs.size() == 1) return;
  const auto source = task.getOutputTensor().at(0).at(0);
  const auto reals = averages(source, 0);
  for (std::size_t kernel = 1; kernel < inputs.size(); ++kernel) {
    write(reals, source, inputs[kernel].at(0));
    task.run(static_cast<int>(kernel));
  }
}

}  // namespace tasks
}  // namespace opendpu
