// SPDX-License-Identifier: Apache-2.0
// XRT's buffer objects, as far as programs with VART use them. They are memory of the host, which the
// simulated DPU reads and writes, so there is nothing to synchronize.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>

#include "xrt/xrt_device.h"
#include "xrt_mem.h"

namespace xrt {

using memory_group = std::uint32_t;

class bo {
 public:
  enum class flags : std::uint32_t { normal, cacheable, device_only, host_only, p2p, svm };

  bo() = default;
  bo(const device& owner, std::size_t size, flags, memory_group) : bo(owner, size) {}
  bo(const device& owner, std::size_t size, memory_group) : bo(owner, size) {}
  // Over memory of the program's, which must live as long.
  bo(const device& owner, void* memory, std::size_t size, flags, memory_group)
      : bo(owner, memory, size) {}
  bo(const device& owner, void* memory, std::size_t size, memory_group) : bo(owner, memory, size) {}
  // A part of another object.
  bo(const bo& parent, std::size_t size, std::size_t offset)
      : memory_(parent.memory_), data_(parent.part(size, offset)), size_(size) {}

  std::size_t size() const { return size_; }
  std::uint64_t address() const { return reinterpret_cast<std::uint64_t>(data_); }
  void* map() { return data_; }
  template <typename MapType>
  MapType map() {
    return reinterpret_cast<MapType>(data_);
  }

  void sync(xclBOSyncDirection, std::size_t size, std::size_t offset) { part(size, offset); }
  void sync(xclBOSyncDirection) {}
  void write(const void* source, std::size_t size, std::size_t seek) {
    std::memcpy(part(size, seek), given(source), size);
  }
  void write(const void* source) { write(source, size_, 0); }
  void read(void* target, std::size_t size, std::size_t skip) {
    std::memcpy(given(target), part(size, skip), size);
  }
  void read(void* target) { read(target, size_, 0); }
  void copy(const bo& source, std::size_t size, std::size_t source_offset = 0,
            std::size_t target_offset = 0) {
    std::memmove(part(size, target_offset), source.part(size, source_offset), size);
  }
  void copy(const bo& source) { copy(source, source.size_); }

  explicit operator bool() const { return data_ != nullptr; }

 private:
  bo(const device& owner, std::size_t size)
      : memory_(new char[size](), std::default_delete<char[]>()), data_(memory_.get()), size_(size) {
    check(owner);
  }
  bo(const device& owner, void* memory, std::size_t size)
      : data_(static_cast<char*>(memory)), size_(size) {
    check(owner);
  }

  template <typename Memory>
  static Memory* given(Memory* memory) {
    if (!memory) throw std::invalid_argument("what a buffer object reads or writes is a null pointer");
    return memory;
  }

  static void check(const device& owner) {
    if (!owner) throw std::runtime_error("a buffer object needs a device, but there is none");
  }

  char* part(std::size_t size, std::size_t offset) const {
    if (offset > size_ || size > size_ - offset) {
      throw std::runtime_error("a buffer object of " + std::to_string(size_) + " bytes has no " +
                               std::to_string(size) + " at " + std::to_string(offset));
    }
    return data_ + offset;
  }

  std::shared_ptr<char> memory_;  // none where it is the program's
  char* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace xrt
