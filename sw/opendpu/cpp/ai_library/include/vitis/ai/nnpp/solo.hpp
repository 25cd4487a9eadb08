// SPDX-License-Identifier: Apache-2.0
// Objects with their outlines, out of a network's outputs.
#pragma once

#include <cstddef>
#include <vector>

#include "vitis/ai/library/tensor.hpp"
#include "vitis/ai/nnpp/ndarray.hpp"
#include "vitis/ai/proto/dpu_model_param.pb.h"

namespace vitis {
namespace ai {

struct SoloResult {
  // Of the network's input.
  int width;
  int height;
  // By falling score. Masks are objects x rows x columns of the image, 1 where the object is.
  Ndarray<int> seg_masks;
  Ndarray<int> cate_labels;
  Ndarray<float> cate_scores;
};

// Outputs are those with the numbers `ind`, in four groups with one of each level, from fine to
// coarse: columns' masks, rows' masks, scores of classes behind a maximum over 2 x 2 cells (with one
// row and column more), the scores. `size` is columns and rows of the image.
SoloResult solo_post_process(const std::vector<library::InputTensor>& input_tensors,
                             const std::vector<library::OutputTensor>& output_tensors,
                             const proto::DpuModelParam& config, std::vector<int> size,
                             std::vector<int> ind, std::size_t batch_ind);
std::vector<SoloResult> solo_post_process_batch(
    const std::vector<library::InputTensor>& input_tensors,
    const std::vector<library::OutputTensor>& output_tensors, const proto::DpuModelParam& config,
    std::vector<std::vector<int>> size, std::vector<int> ind);

}  // namespace ai
}  // namespace vitis
