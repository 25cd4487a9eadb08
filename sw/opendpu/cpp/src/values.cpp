// SPDX-License-Identifier: Apache-2.0
// Attribute values: C++ types for the types of the file, and back.
#include <cstdint>
#include <map>
#include <stdexcept>
#include <type_traits>

#include "python.hpp"

namespace opendpu {
namespace {

using Bytes = std::vector<char>;

template <typename T>
struct Codec {  // integers
  static T from(PyObject* object) {
    if constexpr (std::is_same_v<T, std::uint64_t>) {
      const auto found = PyLong_AsUnsignedLongLong(object);
      if (PyErr_Occurred()) checked(nullptr);
      return found;
    } else {
      return static_cast<T>(integer(object));
    }
  }
  static Ref to(const T& value) {
    if constexpr (std::is_same_v<T, std::uint64_t>) {
      return checked(PyLong_FromUnsignedLongLong(value));
    } else {
      return number(static_cast<long long>(value));
    }
  }
};

template <>
struct Codec<bool> {
  static bool from(PyObject* object) { return PyObject_IsTrue(object) == 1; }
  static Ref to(bool value) { return checked(PyBool_FromLong(value)); }
};

template <typename T>
struct FloatCodec {
  static T from(PyObject* object) {
    const double found = PyFloat_AsDouble(object);
    if (PyErr_Occurred()) checked(nullptr);
    return static_cast<T>(found);
  }
  static Ref to(T value) { return checked(PyFloat_FromDouble(value)); }
};
template <>
struct Codec<float> : FloatCodec<float> {};
template <>
struct Codec<double> : FloatCodec<double> {};

template <>
struct Codec<std::string> {
  static std::string from(PyObject* object) { return text(object); }
  static Ref to(const std::string& value) { return string(value); }
};

template <>
struct Codec<Bytes> {
  static Bytes from(PyObject* object) {
    char* data = nullptr;
    Py_ssize_t size = 0;
    if (PyBytes_AsStringAndSize(object, &data, &size)) checked(nullptr);
    return {data, data + size};
  }
  static Ref to(const Bytes& value) {
    return checked(
        PyBytes_FromStringAndSize(value.data(), static_cast<Py_ssize_t>(value.size())));
  }
};

template <typename T>
struct VectorCodec {
  static std::vector<T> from(PyObject* object) {
    std::vector<T> made;
    for (Py_ssize_t i = 0; i < length(object); ++i) made.push_back(Codec<T>::from(item(object, i)));
    return made;
  }
  static Ref to(const std::vector<T>& values) {
    Ref made = checked(PyList_New(0));
    for (const T& value : values) PyList_Append(made.get(), Codec<T>::to(value).get());
    return made;
  }
};

template <typename T, typename C>
struct MapCodec {
  static std::map<std::string, T> from(PyObject* object) {
    std::map<std::string, T> made;
    PyObject *key = nullptr, *value = nullptr;
    Py_ssize_t position = 0;
    while (PyDict_Next(object, &position, &key, &value)) made[text(key)] = C::from(value);
    return made;
  }
  static Ref to(const std::map<std::string, T>& values) {
    Ref made = checked(PyDict_New());
    for (const auto& [key, value] : values) {
      PyDict_SetItem(made.get(), string(key).get(), C::to(value).get());
    }
    return made;
  }
};

// Takes an object if it is of one of the types that are made of T.
template <typename T>
bool read(const std::string& name, const std::string& kind, PyObject* object, std::any& value) {
  if (kind == name) {
    value = Codec<T>::from(object);
  } else if (kind == name + "_vec") {
    value = VectorCodec<T>::from(object);
  } else if (kind == "map_" + name) {
    value = MapCodec<T, Codec<T>>::from(object);
  } else if (kind == "map_" + name + "_vec") {
    value = MapCodec<std::vector<T>, VectorCodec<T>>::from(object);
  } else {
    return false;
  }
  return true;
}

template <typename T>
bool write(const std::string& name, const std::any& value, std::pair<std::string, Ref>& made) {
  if (const auto* plain = std::any_cast<T>(&value)) {
    made = {name, Codec<T>::to(*plain)};
  } else if (const auto* many = std::any_cast<std::vector<T>>(&value)) {
    made = {name + "_vec", VectorCodec<T>::to(*many)};
  } else if (const auto* map = std::any_cast<std::map<std::string, T>>(&value)) {
    made = {"map_" + name, MapCodec<T, Codec<T>>::to(*map)};
  } else if (const auto* maps = std::any_cast<std::map<std::string, std::vector<T>>>(&value)) {
    made = {"map_" + name + "_vec", MapCodec<std::vector<T>, VectorCodec<T>>::to(*maps)};
  } else {
    return false;
  }
  return true;
}

}  // namespace

std::any value_of(const std::string& kind, PyObject* object) {
  std::any value;
  const bool found =
      read<bool>("bool", kind, object, value) || read<std::int32_t>("int32", kind, object, value) ||
      read<std::uint32_t>("uint32", kind, object, value) ||
      read<std::int64_t>("int64", kind, object, value) ||
      read<std::uint64_t>("uint64", kind, object, value) ||
      read<float>("float", kind, object, value) || read<double>("double", kind, object, value) ||
      read<std::string>("string", kind, object, value) || read<Bytes>("bytes", kind, object, value);
  if (!found) throw std::invalid_argument("attributes of type " + kind + " are not known");
  return value;
}

std::pair<std::string, Ref> object_of(const std::any& value) {
  std::pair<std::string, Ref> made;
  const bool found =
      write<Bytes>("bytes", value, made) || write<bool>("bool", value, made) ||
      write<std::int32_t>("int32", value, made) || write<std::uint32_t>("uint32", value, made) ||
      write<std::int64_t>("int64", value, made) || write<std::uint64_t>("uint64", value, made) ||
      write<float>("float", value, made) || write<double>("double", value, made) ||
      write<std::string>("string", value, made);
  if (!found) {
    throw std::invalid_argument(std::string("no attribute has the C++ type ") +
                                value.type().name());
  }
  return made;
}

}  // namespace opendpu
