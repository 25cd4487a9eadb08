// SPDX-License-Identifier: Apache-2.0
// What tasks of the AI Library make of pairs of images: pairs KIND MODEL IMAGE IMAGE TARGET
#include <cstdio>
#include <fstream>
#include <opencv2/imgcodecs.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "status.hpp"
#include "vitis/ai/RGBDsegmentation.hpp"
#include "vitis/ai/arflow.hpp"

namespace {

using namespace vitis::ai;

void write(const std::string& path, const void* data, std::size_t size) {
  std::ofstream(path, std::ios::binary)
      .write(static_cast<const char*>(data), static_cast<std::streamsize>(size));
}

int flow(char* argv[], const cv::Mat& first, const cv::Mat& second) {
  auto task = ARFlow::create(argv[2]);
  for (const auto& output : task->run(first, second)) {
    std::printf("%s %zu %zu %zu %.9g\n", output.name.c_str(), output.height, output.width,
                output.channel, library::tensor_scale(output));
    write(argv[5], output.get_data(0), output.size);
    break;
  }
  std::printf("%zu\n", task->run(first, second).size());
  try {
    task->run(std::vector<cv::Mat>{first, second}, std::vector<cv::Mat>{first});
  } catch (const std::invalid_argument& error) {
    std::printf("%s\n", error.what());
  }
  return 0;
}

int depth(char* argv[], const cv::Mat& image, const cv::Mat& depths) {
  auto task = RGBDsegmentation::create(argv[2]);
  const auto result = task->run(image, depths);
  std::printf("%d %d\n", result.width, result.height);
  write(argv[5], result.segmentation.data, result.segmentation.total());
  return 0;
}

int run(char* argv[]) {
  const std::string kind = argv[1];
  const auto first = cv::imread(argv[3]), second = cv::imread(argv[4]);
  if (kind == "flow") return flow(argv, first, second);
  if (kind == "depth") return depth(argv, first, second);
  throw std::invalid_argument("there is no task " + kind);
}

}  // namespace

int main(int, char* argv[]) {
  return status_of([&] { return run(argv); });
}
