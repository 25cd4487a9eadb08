// SPDX-License-Identifier: Apache-2.0
// Attributes in memory, and those of an object of Python.
#include "attrs.hpp"

#include <stdexcept>

namespace opendpu {
namespace {

std::string listed(const std::vector<std::string>& keys) {
  std::string made;
  for (const auto& key : keys) made += (made.empty() ? "" : ", ") + key;
  return "{" + made + "}";
}

[[noreturn]] void missing(const std::string& key, const std::vector<std::string>& keys) {
  throw std::out_of_range("there is no attribute " + key + "; there are " + listed(keys));
}

bool fits(const std::any& value, const std::type_info& type) {
  return type == typeid(void) || value.type() == type;
}

}  // namespace

bool PlainAttrs::has_attr(const std::string& key, const std::type_info& type) const {
  const auto found = values_.find(key);
  return found != values_.end() && fits(found->second, type);
}

const std::any& PlainAttrs::get_attr(const std::string& key) const {
  const auto found = values_.find(key);
  if (found == values_.end()) missing(key, get_keys());
  return found->second;
}

std::any& PlainAttrs::get_attr(const std::string& key) {
  return const_cast<std::any&>(static_cast<const PlainAttrs*>(this)->get_attr(key));
}

std::vector<std::string> PlainAttrs::get_keys() const {
  std::vector<std::string> keys;
  for (const auto& [key, value] : values_) keys.push_back(key);
  return keys;
}

xir::Attrs* PlainAttrs::set_attr(const std::string& key, const std::any& value) {
  values_[key] = value;
  return this;
}

bool PlainAttrs::del_attr(const std::string& key) { return values_.erase(key) > 0; }

std::string PlainAttrs::debug_info() const { return listed(get_keys()); }

PythonAttrs::~PythonAttrs() {
  Gil gil;
  owner_ = Ref();
}

bool PythonAttrs::known(const std::string& key) const {
  return PyObject_IsTrue(call(owner_.get(), "has_attr", {string(key).get()}).get()) == 1;
}

std::any& PythonAttrs::read(const std::string& key) const {
  const auto found = read_.find(key);
  if (found != read_.end()) return found->second;
  if (!known(key)) missing(key, get_keys());
  const Ref pair = call("attribute", {owner_.get(), string(key).get()});
  return read_[key] = value_of(text(item(pair.get(), 0)), item(pair.get(), 1));
}

bool PythonAttrs::has_attr(const std::string& key, const std::type_info& type) const {
  Gil gil;
  return known(key) && (type == typeid(void) || fits(read(key), type));
}

const std::any& PythonAttrs::get_attr(const std::string& key) const {
  Gil gil;
  return read(key);
}

std::any& PythonAttrs::get_attr(const std::string& key) {
  Gil gil;
  return read(key);
}

std::vector<std::string> PythonAttrs::get_keys() const {
  Gil gil;
  const Ref names = call("attributes", {owner_.get()});
  std::vector<std::string> keys;
  for (Py_ssize_t i = 0; i < length(names.get()); ++i) keys.push_back(text(item(names.get(), i)));
  return keys;
}

xir::Attrs* PythonAttrs::set_attr(const std::string& key, const std::any& value) {
  Gil gil;
  const auto [kind, object] = object_of(value);
  call(owner_.get(), "set_attr", {string(key).get(), object.get(), string(kind).get()});
  read_.erase(key);
  return this;
}

bool PythonAttrs::del_attr(const std::string& key) {
  Gil gil;
  if (!known(key)) return false;
  call(owner_.get(), "remove_attr", {string(key).get()});
  read_.erase(key);
  return true;
}

std::string PythonAttrs::debug_info() const { return listed(get_keys()); }

}  // namespace opendpu

namespace xir {

std::unique_ptr<Attrs> Attrs::create() { return std::make_unique<opendpu::PlainAttrs>(); }

std::unique_ptr<Attrs> Attrs::clone(Attrs* attrs) {
  auto made = create();
  for (const auto& key : attrs->get_keys()) made->set_attr(key, attrs->get_attr(key));
  return made;
}

}  // namespace xir
