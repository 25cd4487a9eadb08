// SPDX-License-Identifier: Apache-2.0
// The likeliest makes or types of cars out of the output of a classifier.
#pragma once

#include <vector>

#include "vitis/ai/library/tensor.hpp"
#include "vitis/ai/proto/dpu_model_param.pb.h"

namespace vitis {
namespace ai {

struct VehicleClassificationResult {
  struct Score {
    int index;
    float score;
  };
  // Of the network's input.
  int width;
  int height;
  // By falling score.
  std::vector<Score> scores;
  // Which table of names: 1 makes, 2 types.
  int type;

  // The name of a class; empty where there is none.
  const char* lookup(int index);
};

// Softmax of the output that vehicleclassification_param names, or of the first; top_k of them, a
// result a sample.
std::vector<VehicleClassificationResult> vehicleclassification_post_process(
    const std::vector<library::InputTensor>& input_tensors,
    const std::vector<library::OutputTensor>& output_tensors, const proto::DpuModelParam& config);

}  // namespace ai
}  // namespace vitis
