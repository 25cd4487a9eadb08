// SPDX-License-Identifier: Apache-2.0
// For programs that show several videos, with models that take lists of pictures.
#pragma once

#include "vitis/ai/demo.hpp"

DEF_ENV_PARAM(ENABLE_MULTI_BATCH, "0")

namespace vitis {
namespace ai {

// Shows all videos that are named, each through the only filter: batches are 1.
inline int main_for_video_demo_batch(
    int argc, char* argv[], const std::vector<std::function<std::unique_ptr<Filter>()>>& filters) {
  parse_opt(argc, argv);
  const auto shown = GuiThread::instance();
  std::vector<Channel> channels;
  for (std::size_t i = 0; i < g_avi_file.size(); ++i) {
    channels.emplace_back(i, g_avi_file[i], filters.at(0), g_num_of_threads[0]);
  }
  return run_all_threads();
}

}  // namespace ai
}  // namespace vitis
