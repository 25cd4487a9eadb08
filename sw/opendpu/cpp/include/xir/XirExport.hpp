// SPDX-License-Identifier: Apache-2.0
// Marks what the library exports; on Linux that is everything.
#pragma once

#define XIR_DLLESPEC
