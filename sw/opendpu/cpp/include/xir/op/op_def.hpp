// SPDX-License-Identifier: Apache-2.0
// What an op type takes.
#pragma once

#include <string>
#include <vector>

#include "xir/util/data_type.hpp"

namespace xir {

// One argument of an op type.
struct OpArgDef {
  enum OccurenceType { REQUIRED, OPTIONAL, REPEATED, REQUIRED_AND_REPEATED, NUM };

  std::string name;
  OccurenceType occur_type;
  DataType::Type data_type;
  std::string annotation;
};

class OpDef {
 public:
  OpDef(std::string name, std::vector<OpArgDef> input_args)
      : name_(std::move(name)), input_args_(std::move(input_args)) {}

  const std::string& name() const { return name_; }
  const std::vector<OpArgDef>& input_args() const { return input_args_; }

 private:
  std::string name_;
  std::vector<OpArgDef> input_args_;
};

}  // namespace xir
