// SPDX-License-Identifier: Apache-2.0
// XRT's C interface, as far as programs with VART use it: device 0, which is the simulated one, and
// buffer objects, which are memory of the host. What fails is a negative number of errno.h, a null
// pointer or NULLBO, and a line on stderr.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "xrt_mem.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef void* xclDeviceHandle;
typedef unsigned int xclBufferHandle;

#define XRT_NULL_HANDLE NULL
#define NULLBO 0xffffffff
#define XRT_NULL_BO NULLBO

enum xclVerbosityLevel { XCL_QUIET = 0, XCL_INFO = 1, XCL_WARN = 2, XCL_ERROR = 3 };

struct xclBOProperties {
  uint32_t handle;
  uint32_t flags;
  uint64_t size;
  uint64_t paddr;  // what xclMapBO gives: the simulated DPU's memory is the host's
  uint32_t reserved;
};

struct axlf;  // a bitstream; none is read

// How many devices there are: one.
unsigned int xclProbe(void);
// Logs are not written.
xclDeviceHandle xclOpen(unsigned int deviceIndex, const char* logFileName,
                        enum xclVerbosityLevel level);
void xclClose(xclDeviceHandle handle);  // its buffer objects are freed
int xclLoadXclBin(xclDeviceHandle handle, const struct axlf* buffer);
int xclLockDevice(xclDeviceHandle handle);
int xclUnlockDevice(xclDeviceHandle handle);

xclBufferHandle xclAllocBO(xclDeviceHandle handle, size_t size, int unused, unsigned int flags);
// Over memory of the program's, which must live as long.
xclBufferHandle xclAllocUserPtrBO(xclDeviceHandle handle, void* userptr, size_t size,
                                  unsigned int flags);
void xclFreeBO(xclDeviceHandle handle, xclBufferHandle boHandle);
void* xclMapBO(xclDeviceHandle handle, xclBufferHandle boHandle, bool write);
int xclUnmapBO(xclDeviceHandle handle, xclBufferHandle boHandle, void* addr);
int xclSyncBO(xclDeviceHandle handle, xclBufferHandle boHandle, enum xclBOSyncDirection dir,
              size_t size, size_t offset);
size_t xclWriteBO(xclDeviceHandle handle, xclBufferHandle boHandle, const void* src, size_t size,
                  size_t seek);
size_t xclReadBO(xclDeviceHandle handle, xclBufferHandle boHandle, void* dst, size_t size,
                 size_t skip);
int xclCopyBO(xclDeviceHandle handle, xclBufferHandle dstBoHandle, xclBufferHandle srcBoHandle,
              size_t size, size_t dst_offset, size_t src_offset);
int xclGetBOProperties(xclDeviceHandle handle, xclBufferHandle boHandle,
                       struct xclBOProperties* properties);

// Kernels and registers: there are none beside the DPU, which VART runs, so all of these fail.
int xclIPName2Index(xclDeviceHandle handle, const char* ipName);
int xclOpenContext(xclDeviceHandle handle, const unsigned char* xclbinId, unsigned int ipIndex,
                   bool shared);
int xclCloseContext(xclDeviceHandle handle, const unsigned char* xclbinId, unsigned int ipIndex);
int xclRegRead(xclDeviceHandle handle, uint32_t ipIndex, uint32_t offset, uint32_t* datap);
int xclRegWrite(xclDeviceHandle handle, uint32_t ipIndex, uint32_t offset, uint32_t data);
int xclExecBuf(xclDeviceHandle handle, xclBufferHandle cmdBO);
int xclExecWait(xclDeviceHandle handle, int timeoutMilliSec);

#ifdef __cplusplus
}
#endif
