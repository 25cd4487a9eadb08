// SPDX-License-Identifier: Apache-2.0
// For programs that show several videos, with models that take one picture at a time.
#pragma once

#include "vitis/ai/demo.hpp"
