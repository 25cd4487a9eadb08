// SPDX-License-Identifier: Apache-2.0
// New buffers for a subgraph.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "vart/runner_helper.hpp"
#include "xir/attrs/attrs.hpp"
#include "xir/graph/subgraph.hpp"

namespace vart {
namespace assistant {

// Where buffers lie is the attributes' matter on a board; here all are memory of the host.
class TensorBufferAllocator {
 public:
  using Buffers = std::vector<std::unique_ptr<TensorBuffer>>;

  static std::unique_ptr<TensorBufferAllocator> create(const xir::Attrs*) {
    return std::make_unique<TensorBufferAllocator>();
  }

  // For inputs and for outputs; the tensors must live as long.
  std::pair<Buffers, Buffers> allocate(const xir::Subgraph*,
                                       const std::vector<const xir::Tensor*>& inputs,
                                       const std::vector<const xir::Tensor*>& outputs) const {
    return {alloc_cpu_flat_tensor_buffers(inputs), alloc_cpu_flat_tensor_buffers(outputs)};
  }
};

}  // namespace assistant
}  // namespace vart
