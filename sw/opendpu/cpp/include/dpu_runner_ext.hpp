// SPDX-License-Identifier: Apache-2.0
// Where programs for Vitis AI 1 look for it.
#pragma once

#include "vart/dpu/dpu_runner_ext.hpp"
