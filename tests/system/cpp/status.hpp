// SPDX-License-Identifier: Apache-2.0
// What the programs of the AI Library's tests have in common.
#pragma once

#include <exception>
#include <iostream>

// Runs a task; returns 3 where it fails, with the reason on standard error.
template <typename Run>
int status_of(Run run) {
  try {
    return run();
  } catch (const std::exception& error) {
    std::cerr << error.what() << std::endl;
    return 3;
  }
}
