// SPDX-License-Identifier: Apache-2.0
// XRT's C interface over its classes: numbers for buffer objects, and errors as numbers.
#include "xrt.h"

#include <cerrno>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>

#include "xrt.hpp"

namespace {

struct Object {
  const void* owner;
  unsigned int flags;
  xrt::bo bo;
};

std::mutex mutex;
std::map<unsigned int, Object>& objects() {
  static std::map<unsigned int, Object> made;
  return made;
}

Object find(unsigned int number) {
  const std::lock_guard<std::mutex> guard(mutex);
  const auto found = objects().find(number);
  if (found == objects().end()) {
    throw std::runtime_error("there is no buffer object " + std::to_string(number));
  }
  return found->second;
}

std::set<xclDeviceHandle>& open_devices() {
  static std::set<xclDeviceHandle> handles;
  return handles;
}

xrt::device& device_of(xclDeviceHandle handle) {
  if (!handle) throw std::runtime_error("the handle of the device is null");
  const std::lock_guard<std::mutex> guard(mutex);
  if (!open_devices().count(handle)) {
    throw std::runtime_error("the handle is of no device that is open");
  }
  return *static_cast<xrt::device*>(handle);
}

void say(const char* function, const std::string& what) {
  std::cerr << function << ": " << what << std::endl;
}

// What `act` gives, or `failed` with a line on stderr.
template <typename T, typename Act>
T answered(const char* function, T failed, Act act) {
  try {
    return act();
  } catch (const std::exception& error) {
    say(function, error.what());
    return failed;
  }
}

template <typename Act>
int done(const char* function, Act act) {
  return answered(function, -EINVAL, [&] {
    act();
    return 0;
  });
}

unsigned int keep(xclDeviceHandle handle, unsigned int flags, const xrt::bo& bo) {
  static unsigned int next = 1;
  const std::lock_guard<std::mutex> guard(mutex);
  objects()[next] = {handle, flags, bo};
  return next++;
}

int no_kernels(const char* function, const std::string& what) {
  say(function, what + ": beside the DPU, which VART runs, the simulated device has no kernels");
  return -ENODEV;
}

}  // namespace

xrt::bo opendpu::numbered_bo(unsigned int number) { return find(number).bo; }

unsigned int xclProbe() { return 1; }

xclDeviceHandle xclOpen(unsigned int index, const char*, xclVerbosityLevel) {
  return answered(__func__, xclDeviceHandle{}, [&] {
    auto device = std::make_unique<xrt::device>(index);
    const std::lock_guard<std::mutex> guard(mutex);
    open_devices().insert(device.get());
    return xclDeviceHandle{device.release()};
  });
}

void xclClose(xclDeviceHandle handle) {
  const std::lock_guard<std::mutex> guard(mutex);
  if (!open_devices().erase(handle)) {
    if (handle) say(__func__, "the handle is of no device that is open");
    return;
  }
  auto& all = objects();
  for (auto object = all.begin(); object != all.end();) {
    object = object->second.owner == handle ? all.erase(object) : std::next(object);
  }
  delete static_cast<xrt::device*>(handle);
}

int xclLoadXclBin(xclDeviceHandle handle, const axlf*) {
  return done(__func__, [&] { device_of(handle); });
}
int xclLockDevice(xclDeviceHandle handle) {
  return done(__func__, [&] { device_of(handle); });
}
int xclUnlockDevice(xclDeviceHandle handle) {
  return done(__func__, [&] { device_of(handle); });
}

xclBufferHandle xclAllocBO(xclDeviceHandle handle, size_t size, int, unsigned int flags) {
  return answered(__func__, xclBufferHandle{NULLBO}, [&] {
    return keep(handle, flags, xrt::bo(device_of(handle), size, 0));
  });
}

xclBufferHandle xclAllocUserPtrBO(xclDeviceHandle handle, void* memory, size_t size,
                                  unsigned int flags) {
  return answered(__func__, xclBufferHandle{NULLBO}, [&] {
    return keep(handle, flags, xrt::bo(device_of(handle), memory, size, 0));
  });
}

void xclFreeBO(xclDeviceHandle, xclBufferHandle number) {
  const std::lock_guard<std::mutex> guard(mutex);
  if (!objects().erase(number)) say(__func__, "there is no buffer object " + std::to_string(number));
}

void* xclMapBO(xclDeviceHandle, xclBufferHandle number, bool) {
  return answered(__func__, static_cast<void*>(nullptr), [&] { return find(number).bo.map(); });
}

int xclUnmapBO(xclDeviceHandle, xclBufferHandle number, void*) {
  return done(__func__, [&] { find(number); });
}

int xclSyncBO(xclDeviceHandle, xclBufferHandle number, xclBOSyncDirection direction, size_t size,
              size_t offset) {
  return done(__func__, [&] { find(number).bo.sync(direction, size, offset); });
}

size_t xclWriteBO(xclDeviceHandle, xclBufferHandle number, const void* source, size_t size,
                  size_t seek) {
  return static_cast<size_t>(
      done(__func__, [&] { find(number).bo.write(source, size, seek); }));
}

size_t xclReadBO(xclDeviceHandle, xclBufferHandle number, void* target, size_t size, size_t skip) {
  return static_cast<size_t>(done(__func__, [&] { find(number).bo.read(target, size, skip); }));
}

int xclCopyBO(xclDeviceHandle, xclBufferHandle target, xclBufferHandle source, size_t size,
              size_t target_offset, size_t source_offset) {
  return done(__func__, [&] {
    find(target).bo.copy(find(source).bo, size, source_offset, target_offset);
  });
}

int xclGetBOProperties(xclDeviceHandle, xclBufferHandle number, xclBOProperties* properties) {
  return done(__func__, [&] {
    const auto object = find(number);
    *properties = {number, object.flags, object.bo.size(), object.bo.address(), 0};
  });
}

int xclIPName2Index(xclDeviceHandle, const char* name) { return no_kernels(__func__, name); }
int xclOpenContext(xclDeviceHandle, const unsigned char*, unsigned int index, bool) {
  return no_kernels(__func__, std::to_string(index));
}
int xclCloseContext(xclDeviceHandle, const unsigned char*, unsigned int index) {
  return no_kernels(__func__, std::to_string(index));
}
int xclRegRead(xclDeviceHandle, uint32_t index, uint32_t, uint32_t*) {
  return no_kernels(__func__, std::to_string(index));
}
int xclRegWrite(xclDeviceHandle, uint32_t index, uint32_t, uint32_t) {
  return no_kernels(__func__, std::to_string(index));
}
int xclExecBuf(xclDeviceHandle, xclBufferHandle number) {
  return no_kernels(__func__, std::to_string(number));
}
int xclExecWait(xclDeviceHandle, int) { return no_kernels(__func__, "nothing runs"); }
