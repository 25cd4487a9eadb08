// SPDX-License-Identifier: Apache-2.0
// Features of pillars, put where the pillars stand.
#pragma once

#include <vector>

#include "outputs.hpp"

namespace opendpu {
namespace tasks {

struct Pillar {
  int row, column;
};

// Makes an image of the features of pillars, which are as many values a pillar as the image has
// channels, and of zeros between them. Toward zero, as the library; the same bytes where both tensors
// have one scale.
void scatter(const std::vector<Pillar>& pillars, const OutputTensor& features,
             const InputTensor& image);

}  // namespace tasks
}  // namespace opendpu
