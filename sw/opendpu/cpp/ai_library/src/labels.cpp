// SPDX-License-Identifier: Apache-2.0
// Names of classes.
#include "labels.hpp"

#include <iterator>

namespace opendpu {
namespace tasks {
namespace {

// With the commas that they have in Vitis AI: behind all names of a list but the last one.
constexpr const char* kCifar10[] = {"airplane,", "automobile,", "bird,",  "cat,",  "deer,",
                                    "dog,",      "frog,",       "horse,", "ship,", "truck"};
constexpr const char* kFashion[] = {"top",    "trouser", "pullover", "dress", "coat",
                                    "sandal", "shirt",   "sneaker",  "bag",   "ankleBoot"};
constexpr const char* kDirections[] = {"Left", "Right", "Front", "Back"};
constexpr const char* kAnimals[] = {"dog", "cat"};
constexpr const char* kCarColors[] = {"beige,", "black,",  "blue,", "brown,",  "gold,",
                                      "green,", "grey,",   "orange,", "pink,", "purple,",
                                      "red,",   "silver,", "tan,",  "white,",  "yellow"};

// Numbers are those that programs find in ClassificationResult::type.
struct Table {
  const char* name;
  int number;
  const char* const* labels;
  std::size_t size;
};
constexpr Table kTables[] = {
    {"", 0, kImageNet, std::size(kImageNet)},
    {"CIFAR10", 1, kCifar10, std::size(kCifar10)},
    {"FMNIST", 2, kFashion, std::size(kFashion)},
    {"ORIEN", 3, kDirections, std::size(kDirections)},
    {"ALVEOCLS", 4, nullptr, 0},
    {"TF1KERAS", 5, kAnimals, std::size(kAnimals)},
    {"CAR_COLOR_CHEN", 6, kCarColors, std::size(kCarColors)},
};

}  // namespace

int label_table(const std::string& label_type) {
  for (const auto& table : kTables) {
    if (label_type == table.name) return table.number;
  }
  return -1;
}

const char* label(int table, int index) {
  for (const auto& known : kTables) {
    if (known.number != table) continue;
    if (index >= 0 && static_cast<std::size_t>(index) < known.size) return known.labels[index];
  }
  return "";
}

}  // namespace tasks
}  // namespace opendpu
