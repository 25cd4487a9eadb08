// SPDX-License-Identifier: Apache-2.0
// Labels of points: scanner MODEL POINTS, a file of four rows of as many floats.
#include <cstdio>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <vector>

#include "status.hpp"
#include "vitis/ai/3Dsegmentation.hpp"

namespace {

V2F points(const char* path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<char> bytes((std::istreambuf_iterator<char>(file)), {});
  const auto* first = reinterpret_cast<const float*>(bytes.data());
  const auto number = bytes.size() / sizeof(float) / 4;
  V2F rows;
  for (std::size_t i = 0; i < 4; ++i) rows.emplace_back(first + i * number, first + (i + 1) * number);
  return rows;
}

int run(char* argv[]) {
  auto task = vitis::ai::Segmentation3D::create(argv[1]);
  auto rows = points(argv[2]);
  const auto result = task->run(rows);
  std::printf("%d %d\n", result.width, result.height);
  for (const int label : result.array) std::printf("%d ", label);
  std::printf("\n");
  V3F several(2, rows);
  for (const auto& one : task->run(several)) {
    if (one.array != result.array) throw std::runtime_error("two runs give different labels");
  }
  rows[3].push_back(0);
  try {
    task->run(rows);
  } catch (const std::invalid_argument& error) {
    std::printf("%s\n", error.what());
  }
  return 0;
}

}  // namespace

int main(int, char* argv[]) {
  return status_of([&] { return run(argv); });
}
