// SPDX-License-Identifier: Apache-2.0
// Where this header was before XRT 2021.2.
#pragma once

#include "xrt/xrt_device.h"
