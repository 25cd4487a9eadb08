// SPDX-License-Identifier: Apache-2.0
// Where a licence plate is, out of a network's outputs.
#pragma once

#include <vector>

#include "vitis/ai/library/tensor.hpp"
#include "vitis/ai/proto/dpu_model_param.pb.h"

namespace vitis {
namespace ai {

// Places and sizes are shares of the image's width and height.
struct PlateDetectResult {
  struct BoundingBox {
    float score;
    // The top left corner and the size.
    float x;
    float y;
    float width;
    float height;
  };
  struct Point {
    float x;
    float y;
  };
  // Of the network's input.
  int width;
  int height;
  // Around all corners; a plate is found in any picture, so its score is what counts.
  BoundingBox box;
  Point top_left;
  Point top_right;
  Point bottom_left;
  Point bottom_right;
};

// The first subgraph's outputs: one with twice 64 channels, places of 8 x 8 in a cell that are not
// and that are on a plate, and one with 8 x 64, the corners' x and y from there.
std::vector<PlateDetectResult> plate_detect_post_process(
    const std::vector<std::vector<library::InputTensor>>& input_tensors,
    const std::vector<std::vector<library::OutputTensor>>& output_tensors);

}  // namespace ai
}  // namespace vitis
