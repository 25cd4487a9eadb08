// SPDX-License-Identifier: Apache-2.0
// Where programs look for vart/runner_helper.hpp, too.
#pragma once

#include "vart/runner_helper.hpp"
