// SPDX-License-Identifier: Apache-2.0
// Outputs as real values, found by names of layers; boxes and what remains of them.
#pragma once

#include <cmath>
#include <cstddef>
#include <opencv2/core.hpp>
#include <string>
#include <utility>
#include <vector>

#include "vitis/ai/library/tensor.hpp"

namespace opendpu {
namespace tasks {

using vitis::ai::library::InputTensor;
using vitis::ai::library::OutputTensor;

// All elements of a sample.
std::vector<float> values(const OutputTensor& tensor, std::size_t sample);
std::size_t elements(const OutputTensor& tensor);  // of a sample
// Those of several outputs, one after the other.
std::vector<float> values(const std::vector<OutputTensor>& tensors, std::size_t sample);
std::size_t elements(const std::vector<OutputTensor>& tensors);

// The first output whose name has this in it; throws std::runtime_error where there is none.
const OutputTensor& output_named(const std::vector<OutputTensor>& outputs, const std::string& name);

// An output for each name, in their order; all outputs where there are no names.
template <typename Names>
std::vector<OutputTensor> outputs_named(const std::vector<OutputTensor>& outputs,
                                        const Names& names) {
  if (names.empty()) return outputs;
  std::vector<OutputTensor> made;
  for (const auto& name : names) made.push_back(output_named(outputs, name));
  return made;
}

// The first output; throws std::runtime_error where it has more than one value a pixel.
const OutputTensor& single_channel(const std::vector<OutputTensor>& outputs);

// Whether a value is a probability already, and not what a sigmoid makes one of: it says so in its
// name, or its 8 bits reach at most to two.
bool has_probabilities(const OutputTensor& tensor);

// Throws std::runtime_error where a configuration has fewer than one.
void check_classes(int num_classes);

inline float sigmoid(float value) { return 1.f / (1.f + std::exp(-value)); }
// exp(x) / sum; `stride` values apart.
void softmax(float* values, std::size_t number);

// Indices and softmax of the largest values of a sample, at most `number`, by falling score.
std::vector<std::pair<int, float>> likeliest(const OutputTensor& tensor, std::size_t sample,
                                             int number);

// The image, resized with linear interpolation where it has another size.
cv::Mat resized(const cv::Mat& image, int width, int height);

// A box by centre and size, with the score of each class.
struct ClassBox {
  float x, y, width, height;
  std::vector<float> scores;
};

// A box that remains, in the order of classes and, in a class, of scores.
struct Kept {
  int label;
  float score;
  float x, y, width, height;  // x, y: the top left corner
};

// Non-maximum suppression in each class from `first` on, see applyNMS.
std::vector<Kept> suppressed(const std::vector<ClassBox>& boxes, int first, int classes,
                             float nms_threshold, float conf_threshold, int iou_type = 0);

}  // namespace tasks
}  // namespace opendpu
