// SPDX-License-Identifier: Apache-2.0
// As much of glog as the programs here use: they are written as if the user had it.
#pragma once

#include <cstdlib>
#include <iostream>
#include <sstream>

class Message {
 public:
  explicit Message(bool fatal) : fatal_(fatal) {}
  ~Message() {
    std::cerr << text_.str() << std::endl;
    if (fatal_) std::abort();
  }
  template <typename T>
  Message& operator<<(const T& value) {
    text_ << value;
    return *this;
  }

 private:
  bool fatal_;
  std::ostringstream text_;
};

#define CHECK(condition) \
  if (condition) {       \
  } else                 \
    Message(true) << "Check failed: " #condition " "
#define CHECK_EQ(a, b) CHECK((a) == (b))
#define CHECK_NE(a, b) CHECK((a) != (b))
#define CHECK_LT(a, b) CHECK((a) < (b))
#define LOG(severity) Message(false)
