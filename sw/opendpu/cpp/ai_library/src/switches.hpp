// SPDX-License-Identifier: Apache-2.0
// Variables that programs declare themselves and set.
#pragma once

// Pixels are rounded to the nearest element, as with XLNX_ENABLE_ROUND_SETINPUT=1.
extern int GLOBAL_ENABLE_ROUND_SETINPUT;
// Softmax without the core beside a DPU, which there is none of here.
extern int GLOBAL_ENABLE_C_SOFTMAX;
