// SPDX-License-Identifier: Apache-2.0
// For programs that show videos, each with the filter that the command line names.
#pragma once

#include "vitis/ai/demo.hpp"

namespace vitis {
namespace ai {

struct DpuFilterDesciption {  // the library's spelling
  std::string name;
  std::function<std::unique_ptr<Filter>()> filter;
  std::size_t num_of_threads;
};

// Shows videos: "-m FILTER -v VIDEO" for each.
inline int main_for_video_demo_multiple_channel(int argc, char* argv[],
                                                const std::vector<DpuFilterDesciption>& filters) {
  std::vector<std::string> names, videos;
  optind = 1;
  for (int option = 0; (option = getopt(argc, argv, "c:t:m:v:")) != -1;) {
    if (option == 'm') names.emplace_back(optarg);
    if (option == 'v') videos.emplace_back(optarg);
    if (option == '?') std::exit(1);
  }
  if (names.empty() || names.size() != videos.size()) {
    std::cout << "usage: " << argv[0] << " -m <filter> -v <video file name> ..." << std::endl;
    std::exit(1);
  }
  const auto shown = GuiThread::instance();
  std::vector<Channel> channels;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto named = [&](const DpuFilterDesciption& filter) { return filter.name == names[i]; };
    const auto filter = std::find_if(filters.begin(), filters.end(), named);
    if (filter == filters.end()) throw std::runtime_error("there is no filter " + names[i]);
    channels.emplace_back(i, videos[i], filter->filter, static_cast<int>(filter->num_of_threads));
  }
  return run_all_threads();
}

}  // namespace ai
}  // namespace vitis
