// SPDX-License-Identifier: Apache-2.0
// What graphs, subgraphs, ops and tensors have in common: attributes, and a place in Python.
#pragma once

#include <memory>
#include <string>

#include "xir/attrs/attrs.hpp"

namespace xir {

class Access;  // lets the library build objects from those of Python

// Attributes of `Self`, read from the file when they are asked for.
template <typename Self>
class Holder {
 public:
  bool has_attrs() const { return true; }
  bool has_attr(const std::string& key) const { return attrs_->has_attr(key); }
  const any get_attr(const std::string& key) const { return attrs().get_attr(key); }
  std::unique_ptr<Attrs> get_attrs() const { return Attrs::clone(attrs_.get()); }

  template <typename T>
  const T get_attr(const std::string& key) const {
    return stdx::any_cast<T>(attrs().get_attr(key));
  }
  Self* set_attr(const std::string& key, const any& value) {
    attrs_->set_attr(key, value);
    return static_cast<Self*>(this);
  }
  template <typename T>
  Self* set_attr(const std::string& key, const T& value) {
    return set_attr(key, any{value});
  }
  Self* set_attrs(std::unique_ptr<Attrs> attrs) {
    attrs_ = std::move(attrs);
    return static_cast<Self*>(this);
  }
  bool del_attr(const std::string& key) { return attrs_->del_attr(key); }

 protected:
  explicit Holder(std::unique_ptr<Attrs> attrs) : attrs_(std::move(attrs)) {}

 private:
  const Attrs& attrs() const { return *attrs_; }
  std::unique_ptr<Attrs> attrs_;
};

}  // namespace xir
