// SPDX-License-Identifier: Apache-2.0
// Features of pillars, put where the pillars stand.
#include "scatter.hpp"

#include <algorithm>
#include <cstdint>

namespace opendpu {
namespace tasks {

void scatter(const std::vector<Pillar>& pillars, const OutputTensor& features,
             const InputTensor& image) {
  const auto all = values(features, 0);
  const float scale = tensor_scale(image);
  auto* elements = static_cast<std::int8_t*>(image.get_data(0));
  std::fill_n(elements, image.size / image.batch, std::int8_t{0});
  auto value = all.begin();
  for (const auto& pillar : pillars) {
    auto* target = elements + (static_cast<std::size_t>(pillar.row) * image.width +
                               static_cast<std::size_t>(pillar.column)) * image.channel;
    for (std::size_t c = 0; c < image.channel; ++c) {
      target[c] = static_cast<std::int8_t>(static_cast<int>(*value++ * scale));
    }
  }
}

}  // namespace tasks
}  // namespace opendpu
