// SPDX-License-Identifier: Apache-2.0
// Tensor buffers with memory of the host, without gaps.
#pragma once

#include <memory>
#include <vector>

#include "vart/tensor_buffer.hpp"
#include "xir/tensor/tensor.hpp"

namespace vart {
namespace mm {

// Owns zeroed memory for a tensor, which must live as long.
class HostFlatTensorBuffer : public TensorBuffer {
 public:
  explicit HostFlatTensorBuffer(const xir::Tensor* tensor);
  HostFlatTensorBuffer(const HostFlatTensorBuffer& other);
  HostFlatTensorBuffer& operator=(const HostFlatTensorBuffer&) = delete;

  std::pair<std::uint64_t, std::size_t> data(const std::vector<std::int32_t> idx = {}) override;
  std::shared_ptr<void> memory_owner() const override { return memory_; }

 private:
  std::shared_ptr<std::vector<char>> memory_;
};

}  // namespace mm
}  // namespace vart
