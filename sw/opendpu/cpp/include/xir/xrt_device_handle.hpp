// SPDX-License-Identifier: Apache-2.0
// The FPGA's compute units, as programs of Vitis AI ask for them. The simulated device is one device
// without compute units: programs that only include this header, or hold the device, run; those that
// want a unit's name, handle or registers are told so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>

namespace xir {

class XrtDeviceHandle {
 public:
  static std::shared_ptr<XrtDeviceHandle> get_instance() {
    static const auto instance = std::shared_ptr<XrtDeviceHandle>(new XrtDeviceHandle());
    return instance;
  }
  XrtDeviceHandle(const XrtDeviceHandle&) = delete;
  XrtDeviceHandle& operator=(const XrtDeviceHandle&) = delete;
  virtual ~XrtDeviceHandle() = default;

  std::size_t get_num_of_devices() const { return 1; }
  std::size_t get_num_of_cus() const { return 0; }
  std::size_t get_num_of_cus(const std::string&) const { return 0; }

  // All of these throw std::runtime_error.
  std::size_t get_device_index(const std::string& name, std::size_t i) const { none(name, i); }
  std::size_t get_device_id(const std::string& name, std::size_t i) const { none(name, i); }
  const void* get_device_uuid(const std::string& name, std::size_t i) const { none(name, i); }
  std::string get_cu_full_name(const std::string& name, std::size_t i) const { none(name, i); }
  std::string get_cu_kernel_name(const std::string& name, std::size_t i) const { none(name, i); }
  std::string get_cu_instance_name(const std::string& name, std::size_t i) const { none(name, i); }
  std::uint64_t get_cu_fingerprint(const std::string& name, std::size_t i) const { none(name, i); }
  const void* get_device_handle(const std::string& name, std::size_t i) const { none(name, i); }
  const void* get_kernel_handle(const std::string& name, std::size_t i) const { none(name, i); }
  std::uint32_t read_register(const std::string& name, std::size_t i, std::uint32_t) const {
    none(name, i);
  }
  void write_register(const std::string& name, std::size_t i, std::uint32_t, std::uint32_t) const {
    none(name, i);
  }

 private:
  XrtDeviceHandle() = default;

  [[noreturn]] static void none(const std::string& name, std::size_t index) {
    throw std::runtime_error("there is no compute unit " + std::to_string(index) + " of \"" + name +
                             "\": the simulated device has none");
  }
};

}  // namespace xir
