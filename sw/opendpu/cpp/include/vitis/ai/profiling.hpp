// SPDX-License-Identifier: Apache-2.0
// How long parts of a program take: __TIC__(part) ... __TOC__(part) in one block. With
// DEEPHI_PROFILING=1 in the environment, "part : 123us" is written to stderr.
#pragma once

#include <chrono>
#include <iostream>
#include <string>

#include "vitis/ai/env_config.hpp"

namespace vitis {
namespace ai {

using Clock = std::chrono::steady_clock;

inline bool is_profiling() {
  static const bool asked = env_param<int>("DEEPHI_PROFILING", "0") != 0;
  return asked;
}

inline void tell_time(const char* part, Clock::time_point start) {
  if (!is_profiling()) return;
  const auto time = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - start);
  std::cerr << part << " : " + std::to_string(time.count()) + "us\n";
}

}  // namespace ai
}  // namespace vitis

#define __TIC__(part) const auto part##_tic_ = ::vitis::ai::Clock::now();
#define __TOC__(part) ::vitis::ai::tell_time(#part, part##_tic_);
