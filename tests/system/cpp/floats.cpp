// SPDX-License-Identifier: Apache-2.0
// What tasks of the AI Library make of arrays: floats KIND MODEL FILE, the file's floats in; one
// value a line.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "vitis/ai/cflownet.hpp"
#include "vitis/ai/unet2d.hpp"

namespace {

using namespace vitis::ai;

std::vector<float> read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes(std::istreambuf_iterator<char>(file), {});
  const auto* values = reinterpret_cast<const float*>(bytes.data());
  return {values, values + bytes.size() / sizeof(float)};
}

template <typename Result>
int print(const Result& result, bool same) {
  std::printf("%d %d %d\n", result.width, result.height, same);
  for (const float value : result.data) std::printf("%.9g\n", value);
  return 0;
}

}  // namespace

int main(int, char* argv[]) {
  const std::string kind = argv[1];
  auto values = read(argv[3]);
  try {
    if (kind == "slice") {
      auto task = Unet2D::create(argv[2]);
      const auto result = task->run(values);
      const auto list = task->run(std::vector<std::vector<float>>{values, values});
      const int size = static_cast<int>(values.size());
      const auto pointers = task->run(std::vector<float*>{values.data()}, size);
      return print(result, task->run(values.data(), size).data == result.data &&
                               list.at(1).data == result.data &&
                               pointers.at(0).data == result.data);
    }
    auto task = Cflownet::create(argv[2]);
    const auto result = task->run(values.data());
    const auto again = task->run(std::vector<const float*>{values.data(), values.data()});
    return print(result, again.at(1).data == result.data);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 3;
  }
}
