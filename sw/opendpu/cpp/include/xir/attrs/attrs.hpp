// SPDX-License-Identifier: Apache-2.0
// Attributes: values by name.
#pragma once

#include <memory>
#include <string>
#include <typeinfo>
#include <vector>

#include "UniLog/UniLog.hpp"
#include "xir/util/any.hpp"

namespace xir {

// Values by name. Their C++ types are those of the file: std::int32_t, std::uint64_t, double,
// std::string, std::vector<char> for bytes, vectors of these, and std::map<std::string, ...>.
class Attrs {
 public:
  static std::unique_ptr<Attrs> create();
  static std::unique_ptr<Attrs> clone(Attrs* attrs);
  virtual ~Attrs() = default;

  // Without a type, or with void, any value counts.
  virtual bool has_attr(const std::string& key,
                        const std::type_info& type = typeid(void)) const = 0;
  // Throws std::out_of_range where there is none.
  virtual const any& get_attr(const std::string& key) const = 0;
  virtual any& get_attr(const std::string& key) = 0;
  virtual std::vector<std::string> get_keys() const = 0;
  virtual Attrs* set_attr(const std::string& key, const any& value) = 0;
  // Tells whether there was one.
  virtual bool del_attr(const std::string& key) = 0;
  virtual std::string debug_info() const = 0;

  // Throws std::bad_any_cast where the value has another type.
  template <typename T>
  const T get_attr(const std::string& key) const {
    return stdx::any_cast<T>(this->get_attr(key));
  }
  template <typename T>
  Attrs* set_attr(const std::string& key, const T& value) {
    return this->set_attr(key, any{value});
  }
};

}  // namespace xir
