// SPDX-License-Identifier: Apache-2.0
// Variables that programs declare themselves and set.
#include "switches.hpp"

int GLOBAL_ENABLE_ROUND_SETINPUT = 0;
int GLOBAL_ENABLE_C_SOFTMAX = 0;
