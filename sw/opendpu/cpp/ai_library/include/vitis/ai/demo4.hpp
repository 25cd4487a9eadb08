// SPDX-License-Identifier: Apache-2.0
// For programs that show several videos, with models that take lists of pictures.
#pragma once

#include "vitis/ai/demo.hpp"
