// SPDX-License-Identifier: Apache-2.0
// What AMD's headers bring along: glog's CHECK and LOG, where the user has glog.
#pragma once

#if __has_include(<glog/logging.h>)
#include <glog/logging.h>
#endif
