// SPDX-License-Identifier: Apache-2.0
// Small things that programs with runners need.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "vart/runner_ext.hpp"
#include "vart/tensor_buffer.hpp"
#include "xir/graph/graph.hpp"

namespace vart {

// Memory of a buffer.
struct tensor_buffer_data_t {
  void* data;
  std::size_t size;
};

// Memory of somebody else, or of its own, for a tensor, which must live as long.
class CpuFlatTensorBuffer : public TensorBuffer {
 public:
  CpuFlatTensorBuffer(void* data, const xir::Tensor* tensor) : TensorBuffer(tensor), data_(data) {}
  std::pair<std::uint64_t, std::size_t> data(const std::vector<std::int32_t> idx = {}) override;

 protected:
  void* data_;
};

class CpuFlatTensorBufferOwned : public CpuFlatTensorBuffer {
 public:
  explicit CpuFlatTensorBufferOwned(const xir::Tensor* tensor);
  CpuFlatTensorBufferOwned(const CpuFlatTensorBufferOwned&) = delete;
  CpuFlatTensorBufferOwned& operator=(const CpuFlatTensorBufferOwned&) = delete;
  std::shared_ptr<void> memory_owner() const override { return memory_; }

 private:
  std::shared_ptr<std::vector<char>> memory_;
};

std::vector<std::int32_t> get_index_zeros(const xir::Tensor* tensor);
tensor_buffer_data_t get_tensor_buffer_data(TensorBuffer* tensor_buffer,
                                            const std::vector<std::int32_t>& idx);
tensor_buffer_data_t get_tensor_buffer_data(TensorBuffer* tensor_buffer, std::size_t batch_index);

// New memory of the host; the tensors must live as long.
std::unique_ptr<TensorBuffer> alloc_cpu_flat_tensor_buffer(const xir::Tensor* tensor);
std::vector<std::unique_ptr<TensorBuffer>> alloc_cpu_flat_tensor_buffers(
    const std::vector<const xir::Tensor*>& tensors);

}  // namespace vart
