// SPDX-License-Identifier: Apache-2.0
// Maps out of maps and noise.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "vitis/ai/configurable_dpu_task.hpp"

namespace vitis {
namespace ai {

struct CflownetResult {
  // Of the network's input.
  int width;
  int height;
  std::vector<float> data;  // probabilities: the sigmoid of the first output
};

class Cflownet : public ConfigurableDpuTaskBase {
 public:
  // See ConfigurableDpuTask. The larger one of the model's two inputs takes the map, the other one
  // standard normal noise, other in each run; with ENABLE_CFLOW_CMPDATA=1 in the environment the
  // elements that the library compares results with.
  static std::unique_ptr<Cflownet> create(const std::string& model_name,
                                          bool need_preprocess = false);

  // As many values as the input has, rounded and clamped to its elements; toward zero with
  // ENABLE_CFLOW_ROUND=0.
  virtual CflownetResult run(const float* map) = 0;
  virtual std::vector<CflownetResult> run(const std::vector<const float*> maps) = 0;

 protected:
  using ConfigurableDpuTaskBase::ConfigurableDpuTaskBase;
};

}  // namespace ai
}  // namespace vitis
