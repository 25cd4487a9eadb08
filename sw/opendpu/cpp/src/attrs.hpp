// SPDX-License-Identifier: Apache-2.0
// Attributes in memory, and those of an object of Python.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "python.hpp"
#include "xir/attrs/attrs.hpp"

namespace opendpu {

class PlainAttrs : public xir::Attrs {
 public:
  bool has_attr(const std::string& key, const std::type_info& type) const override;
  const std::any& get_attr(const std::string& key) const override;
  std::any& get_attr(const std::string& key) override;
  std::vector<std::string> get_keys() const override;
  xir::Attrs* set_attr(const std::string& key, const std::any& value) override;
  bool del_attr(const std::string& key) override;
  std::string debug_info() const override;

 private:
  std::map<std::string, std::any> values_;
};

// Reads a value when it is first asked for, and tells Python of changes.
class PythonAttrs : public xir::Attrs {
 public:
  explicit PythonAttrs(Ref owner) : owner_(std::move(owner)) {}
  ~PythonAttrs() override;

  bool has_attr(const std::string& key, const std::type_info& type) const override;
  const std::any& get_attr(const std::string& key) const override;
  std::any& get_attr(const std::string& key) override;
  std::vector<std::string> get_keys() const override;
  xir::Attrs* set_attr(const std::string& key, const std::any& value) override;
  bool del_attr(const std::string& key) override;
  std::string debug_info() const override;

 private:
  bool known(const std::string& key) const;
  std::any& read(const std::string& key) const;

  Ref owner_;
  mutable std::map<std::string, std::any> read_;  // used with the interpreter's lock held
};

}  // namespace opendpu
