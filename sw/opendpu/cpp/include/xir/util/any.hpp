// SPDX-License-Identifier: Apache-2.0
// Values of attributes.
#pragma once

#include <any>

namespace xir {
using any = std::any;
namespace stdx = ::std;
}  // namespace xir
