// SPDX-License-Identifier: Apache-2.0
// For programs that show several videos.
#pragma once

#include "vitis/ai/demo.hpp"
