// SPDX-License-Identifier: Apache-2.0
// Settings from the environment, and times of parts: headers alone, without a library.
#include <string>
#include <vector>

#include "vitis/ai/env_config.hpp"
#include "vitis/ai/profiling.hpp"

DEF_ENV_PARAM(SAMPLE_LOOPS, "3");
DEF_ENV_PARAM_2(SAMPLE_SCALE, "0.5", double);
DEF_ENV_PARAM_2(SAMPLE_FOLDER, "two words", std::string);
DEF_ENV_PARAM_2(SAMPLE_SIZES, "1,20", std::vector<int>);

int main() {
  __TIC__(everything)
  std::cout << ENV_PARAM(SAMPLE_LOOPS) + 1 << "|" << ENV_PARAM(SAMPLE_SCALE) << "|"
            << ENV_PARAM(SAMPLE_FOLDER);
  for (const int size : ENV_PARAM(SAMPLE_SIZES)) std::cout << "|" << size;
  __TIC__(inside)
  __TOC__(inside)
  __TOC__(everything)
}
