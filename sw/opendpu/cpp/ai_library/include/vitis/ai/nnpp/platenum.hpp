// SPDX-License-Identifier: Apache-2.0
// Characters and colour of a licence plate, out of a network's outputs.
#pragma once

#include <string>
#include <vector>

#include "vitis/ai/library/tensor.hpp"

namespace vitis {
namespace ai {

struct PlateNumResult {
  // Of the network's input.
  int width;
  int height;
  // The province in Latin letters ("jing"), and six letters and digits.
  std::string plate_number;
  std::string plate_color;  // Blue or Yellow
};

// Eight outputs, in this order: the province, a letter, five letters or digits, the colour. They are
// output_tensors[sub_x[i]][sub_y[i]]; with fewer sub_y the last one counts for the rest.
std::vector<PlateNumResult> plate_num_post_process(
    const std::vector<std::vector<library::InputTensor>>& input_tensors,
    const std::vector<std::vector<library::OutputTensor>>& output_tensors,
    const std::vector<int>& sub_x, const std::vector<int>& sub_y);

}  // namespace ai
}  // namespace vitis
