// SPDX-License-Identifier: Apache-2.0
// Settings that a program takes from the environment:
//   DEF_ENV_PARAM(NUM, "4")  DEF_ENV_PARAM_2(PATH, "/tmp", std::string)  ...  ENV_PARAM(NUM)
// They are read once, before main. Throws std::invalid_argument where a number is none.
#pragma once

#include <cstdlib>
#include <sstream>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

namespace vitis {
namespace ai {

template <typename T>
struct env_value {
  static T parse(const std::string& name, const std::string& text) {
    if constexpr (std::is_same_v<T, std::string>) {
      return text;
    } else {
      T value{};
      std::istringstream stream(text);
      if (!(stream >> value) || !(stream >> std::ws).eof()) {
        throw std::invalid_argument("environment variable " + name + " is '" + text +
                                    "', which is no number");
      }
      return value;
    }
  }
};

// Several, with commas between them.
template <typename T>
struct env_value<std::vector<T>> {
  static std::vector<T> parse(const std::string& name, const std::string& text) {
    std::vector<T> values;
    std::istringstream stream(text);
    for (std::string word; std::getline(stream, word, ',');) {
      values.push_back(env_value<T>::parse(name, word));
    }
    return values;
  }
};

template <typename T>
T env_param(const char* name, const char* otherwise) {
  const char* text = std::getenv(name);
  return env_value<T>::parse(name, text != nullptr ? text : otherwise);
}

}  // namespace ai
}  // namespace vitis

#define DEF_ENV_PARAM_2(name, otherwise, type) \
  struct ENV_PARAM_##name {                    \
    static inline type value = ::vitis::ai::env_param<type>(#name, otherwise); \
  };
#define DEF_ENV_PARAM(name, otherwise) DEF_ENV_PARAM_2(name, otherwise, int)
#define ENV_PARAM(name) (ENV_PARAM_##name::value)
