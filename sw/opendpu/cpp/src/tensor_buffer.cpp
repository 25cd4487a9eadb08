// SPDX-License-Identifier: Apache-2.0
// Tensor buffers: copies, conversions, and memory of the host.
#include "vart/tensor_buffer.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "vart/mm/host_flat_tensor_buffer.hpp"
#include "vart/runner_helper.hpp"

namespace vart {
namespace {

using xir::DataType;

std::vector<std::int32_t> first_of(const xir::Tensor* tensor, std::size_t batch) {
  std::vector<std::int32_t> index(tensor->get_shape().size(), 0);
  if (!index.empty()) index[0] = static_cast<std::int32_t>(batch);
  return index;
}

bool is_float(const xir::Tensor* tensor) {
  return tensor->get_data_type() == DataType{DataType::FLOAT, 32};
}

bool is_byte(const xir::Tensor* tensor) {
  const auto type = tensor->get_data_type();
  return type.bit_width == 8 && (type.type == DataType::XINT || type.type == DataType::INT);
}

int fix_point(const xir::Tensor* fixed, const xir::Tensor* other) {
  for (const auto* tensor : {fixed, other}) {
    if (tensor->has_attr("fix_point")) return tensor->get_attr<int>("fix_point");
  }
  throw std::runtime_error("tensor " + fixed->get_name() +
                           " has no fix_point, so floats cannot be converted");
}

// Beyond 32 bits, values saturate first, as on the Arm cores of the boards.
std::int8_t to_fixed(float value) {
  const double limit = 2147483647.0;
  const double whole = std::trunc(std::clamp(static_cast<double>(value), -limit - 1, limit));
  return static_cast<std::int8_t>(static_cast<std::int32_t>(whole));
}

template <typename Thing>
Thing* given(Thing* thing, const char* what) {
  if (!thing) throw std::invalid_argument(std::string(what) + " is a null pointer");
  return thing;
}

char* memory(TensorBuffer* buffer, std::size_t batch, std::size_t offset, std::size_t size) {
  const auto* tensor = given(buffer->get_tensor(), "the tensor of a buffer");
  const auto [address, left] = buffer->data(first_of(tensor, batch));
  if (offset > left || size > left - offset) {
    throw std::out_of_range("tensor " + tensor->get_name() + " has " + std::to_string(left) +
                            " bytes from there on, not " + std::to_string(size) + " at " +
                            std::to_string(offset));
  }
  if (!address && size) {
    throw std::runtime_error("the buffer of tensor " + tensor->get_name() + " has no memory");
  }
  return reinterpret_cast<char*>(address) + offset;
}

// The address of an element of memory without gaps, and how many bytes lie from there to the end.
// More indices than dimensions may be given where they are 0: programs give four for any tensor.
std::pair<std::uint64_t, std::size_t> within(void* memory, const xir::Tensor* tensor,
                                             const std::vector<std::int32_t>& idx) {
  const auto shape = tensor->get_shape();
  const auto more = std::min(idx.size(), shape.size());
  if ((!idx.empty() && idx.size() < shape.size()) ||
      std::any_of(idx.begin() + static_cast<std::ptrdiff_t>(more), idx.end(), [](std::int32_t i) { return i != 0; })) {
    throw std::out_of_range("tensor " + tensor->get_name() + " has " +
                            std::to_string(shape.size()) + " dimensions, not " +
                            std::to_string(idx.size()));
  }
  std::int64_t element = 0;
  for (std::size_t i = 0; i < more; ++i) {
    if (idx[i] < 0 || idx[i] >= shape[i]) {
      throw std::out_of_range("tensor " + tensor->to_string() + " has no element there");
    }
    element = element * shape[i] + idx[i];
  }
  const auto offset = static_cast<std::size_t>(element * tensor->get_data_type().bit_width / 8);
  return {reinterpret_cast<std::uint64_t>(memory) + offset,
          static_cast<std::size_t>(tensor->get_data_size()) - offset};
}

// Memory of the program's own, taken for a device's.
class UnownedTensorBuffer : public CpuFlatTensorBuffer {
 public:
  using CpuFlatTensorBuffer::CpuFlatTensorBuffer;
  std::pair<std::uint64_t, std::size_t> data_phy(const std::vector<std::int32_t> idx) override {
    return data(idx);
  }
  location_t get_location() const override { return location_t::DEVICE_0; }
};

}  // namespace

std::unique_ptr<TensorBuffer> TensorBuffer::create_unowned_device_tensor_buffer(
    const xir::Tensor* tensor, std::uint64_t batch_addr[], std::size_t addr_arrsize) {
  const auto shape = given(tensor, "the tensor of a buffer")->get_shape();
  given(batch_addr, "the array of addresses");
  const auto batch = shape.empty() ? 1 : shape[0];
  if (addr_arrsize != 1 || batch != 1) {
    throw std::invalid_argument("tensor " + tensor->get_name() + " has a batch of " +
                                std::to_string(batch) + " and " + std::to_string(addr_arrsize) +
                                " addresses, but both must be 1");
  }
  auto* address = given(reinterpret_cast<void*>(batch_addr[0]), "an address of a buffer");
  return std::make_unique<UnownedTensorBuffer>(address, tensor);
}

std::string TensorBuffer::to_string(location_t value) {
  if (value == location_t::HOST_VIRT) return "HOST_VIRT";
  if (value == location_t::HOST_PHY) return "HOST_PHY";
  return "DEVICE_" + std::to_string(static_cast<int>(value) - static_cast<int>(location_t::DEVICE_0));
}

std::string TensorBuffer::to_string() const {
  return "TensorBuffer{tensor=" + tensor_->to_string() +
         ", location=" + to_string(get_location()) + "}";
}

void TensorBuffer::copy_from_host(std::size_t batch_idx, const void* buf, std::size_t size,
                                  std::size_t offset) {
  auto* target = memory(this, batch_idx, offset, size);
  if (size) std::memcpy(target, given(buf, "what is copied from the host"), size);
}

void TensorBuffer::copy_to_host(std::size_t batch_idx, void* buf, std::size_t size,
                                std::size_t offset) {
  const auto* source = memory(this, batch_idx, offset, size);
  if (size) std::memcpy(given(buf, "what is copied to the host"), source, size);
}

void TensorBuffer::copy_tensor_buffer(TensorBuffer* tb_from, TensorBuffer* tb_to) {
  const auto* from = given(given(tb_from, "a buffer to copy")->get_tensor(), "its tensor");
  const auto* to = given(given(tb_to, "a buffer to copy to")->get_tensor(), "its tensor");
  const auto number = static_cast<std::size_t>(from->get_element_num());
  if (from->get_shape() != to->get_shape()) {
    throw std::runtime_error("tensors " + from->to_string() + " and " + to->to_string() +
                             " have other shapes");
  }
  char* source = memory(tb_from, 0, 0, from->get_data_size());
  char* target = memory(tb_to, 0, 0, to->get_data_size());
  if (from->get_data_type() == to->get_data_type() || (is_byte(from) && is_byte(to))) {
    std::memcpy(target, source, to->get_data_size());
  } else if (is_float(from) && is_byte(to)) {
    const int point = fix_point(to, from);
    const auto* values = reinterpret_cast<const float*>(source);
    for (std::size_t i = 0; i < number; ++i) {
      reinterpret_cast<std::int8_t*>(target)[i] = to_fixed(std::ldexp(values[i], point));
    }
  } else if (is_byte(from) && is_float(to)) {
    const int point = fix_point(from, to);
    const auto* values = reinterpret_cast<const std::int8_t*>(source);
    for (std::size_t i = 0; i < number; ++i) {
      reinterpret_cast<float*>(target)[i] = std::ldexp(static_cast<float>(values[i]), -point);
    }
  } else {
    throw std::runtime_error("elements of " + from->to_string() + " are not converted to those of " +
                             to->to_string());
  }
}

namespace mm {

HostFlatTensorBuffer::HostFlatTensorBuffer(const xir::Tensor* tensor)
    : TensorBuffer(given(tensor, "the tensor of a buffer")),
      memory_(std::make_shared<std::vector<char>>(
          static_cast<std::size_t>(tensor->get_data_size()))) {}

HostFlatTensorBuffer::HostFlatTensorBuffer(const HostFlatTensorBuffer& other)
    : TensorBuffer(other), memory_(std::make_shared<std::vector<char>>(*other.memory_)) {}

std::pair<std::uint64_t, std::size_t> HostFlatTensorBuffer::data(
    const std::vector<std::int32_t> idx) {
  return within(memory_->data(), tensor_, idx);
}

}  // namespace mm

std::pair<std::uint64_t, std::size_t> CpuFlatTensorBuffer::data(
    const std::vector<std::int32_t> idx) {
  return within(data_, tensor_, idx);
}

CpuFlatTensorBufferOwned::CpuFlatTensorBufferOwned(const xir::Tensor* tensor)
    : CpuFlatTensorBuffer(nullptr, given(tensor, "the tensor of a buffer")),
      memory_(std::make_shared<std::vector<char>>(
          static_cast<std::size_t>(tensor->get_data_size()))) {
  data_ = memory_->data();
}

std::vector<std::int32_t> get_index_zeros(const xir::Tensor* tensor) {
  return first_of(tensor, 0);
}

tensor_buffer_data_t get_tensor_buffer_data(TensorBuffer* tensor_buffer,
                                            const std::vector<std::int32_t>& idx) {
  const auto [address, size] = tensor_buffer->data(idx);
  return {reinterpret_cast<void*>(address), size};
}

tensor_buffer_data_t get_tensor_buffer_data(TensorBuffer* tensor_buffer, std::size_t batch_index) {
  return get_tensor_buffer_data(tensor_buffer, first_of(tensor_buffer->get_tensor(), batch_index));
}

std::unique_ptr<TensorBuffer> alloc_cpu_flat_tensor_buffer(const xir::Tensor* tensor) {
  return std::make_unique<mm::HostFlatTensorBuffer>(tensor);
}

std::vector<std::unique_ptr<TensorBuffer>> alloc_cpu_flat_tensor_buffers(
    const std::vector<const xir::Tensor*>& tensors) {
  std::vector<std::unique_ptr<TensorBuffer>> made;
  for (const auto* tensor : tensors) made.push_back(alloc_cpu_flat_tensor_buffer(tensor));
  return made;
}

}  // namespace vart
