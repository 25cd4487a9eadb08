// SPDX-License-Identifier: Apache-2.0
// Tensor buffers in memory that a program has from XRT.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "vart/tensor_buffer.hpp"
#include "vart/zero_copy_helper.hpp"
#include "xir/tensor/tensor.hpp"

namespace vart {
namespace assistant {

// The tensor of a runner begins where its subgraph has it (ddr_addr) in memory that all inputs or
// outputs share. Buffer object and tensor must live as long. Throws std::runtime_error where the
// object is too small.
class XrtBoTensorBuffer : public TensorBuffer {
 public:
  static std::unique_ptr<TensorBuffer> create(xrt_bo_t bo, const xir::Tensor* tensor);
  XrtBoTensorBuffer(xrt_bo_t bo, const xir::Tensor* tensor);
  XrtBoTensorBuffer(const XrtBoTensorBuffer&) = delete;
  XrtBoTensorBuffer& operator=(const XrtBoTensorBuffer&) = delete;

  // The simulated DPU's memory is the host's, so both are the same.
  std::pair<std::uint64_t, std::size_t> data(const std::vector<std::int32_t> idx = {}) override;
  std::pair<std::uint64_t, std::size_t> data_phy(const std::vector<std::int32_t> idx) override;
  location_t get_location() const override { return location_t::DEVICE_0; }

 private:
  std::uint64_t start_;
};

}  // namespace assistant
}  // namespace vart
