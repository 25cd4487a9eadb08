// SPDX-License-Identifier: Apache-2.0
// Tensor buffers: memory that knows its tensor.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <typeinfo>
#include <utility>
#include <vector>

namespace xir {
class Tensor;
}

namespace vart {

// Memory of one tensor; programs derive from it to hand out memory of their own.
class TensorBuffer {
 public:
  explicit TensorBuffer(const xir::Tensor* tensor) : tensor_(tensor) {}
  virtual ~TensorBuffer() = default;

  // Where the memory is; here always HOST_VIRT.
  enum class location_t {
    HOST_VIRT = 0,
    HOST_PHY = 1,
    DEVICE_0 = 2,
    DEVICE_1 = 3,
    DEVICE_2 = 4,
    DEVICE_3 = 5,
    DEVICE_4 = 6,
    DEVICE_5 = 7,
    DEVICE_6 = 8,
    DEVICE_7 = 9
  };
  static std::string to_string(location_t value);

  // Copies all elements. Where one side has floats and the other fixed point, values are converted
  // as VART does it: times 2^fix_point, toward zero, wrapping. Throws std::runtime_error where
  // shapes differ or nothing says the fix_point.
  static void copy_tensor_buffer(TensorBuffer* tb_from, TensorBuffer* tb_to);

  // A buffer on memory of the program's own, one address a sample, which must live as long. The
  // simulated DPU's memory is the host's, so these are addresses of the host.
  static std::unique_ptr<TensorBuffer> create_unowned_device_tensor_buffer(
      const xir::Tensor* tensor, std::uint64_t batch_addr[], std::size_t addr_arrsize);

  // The address of an element, and how many bytes lie from there to the end.
  virtual std::pair<std::uint64_t, std::size_t> data(
      const std::vector<std::int32_t> idx = {}) = 0;
  virtual location_t get_location() const { return location_t::HOST_VIRT; }
  virtual std::pair<std::uint64_t, std::size_t> data_phy(const std::vector<std::int32_t>) {
    return {0u, 0u};
  }
  virtual void sync_for_read(std::uint64_t, std::size_t) {}
  virtual void sync_for_write(std::uint64_t, std::size_t) {}
  virtual void copy_from_host(std::size_t batch_idx, const void* buf, std::size_t size,
                              std::size_t offset);
  virtual void copy_to_host(std::size_t batch_idx, void* buf, std::size_t size,
                            std::size_t offset);

  // What jobs keep until they are done, so that the buffer itself may go earlier: the owner of its
  // memory, or nothing for memory of the program's own.
  virtual std::shared_ptr<void> memory_owner() const { return nullptr; }

  const xir::Tensor* get_tensor() const { return tensor_; }
  virtual std::string to_string() const;

 protected:
  const xir::Tensor* tensor_;
};

}  // namespace vart
