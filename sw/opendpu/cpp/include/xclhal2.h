// SPDX-License-Identifier: Apache-2.0
// The name that XRT's C interface had.
#pragma once

#include "xrt.h"
