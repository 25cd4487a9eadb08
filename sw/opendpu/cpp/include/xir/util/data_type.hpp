// SPDX-License-Identifier: Apache-2.0
// Element types of tensors.
#pragma once

#include <climits>
#include <cstdint>
#include <string>
#include <type_traits>

namespace xir {

// A kind of element and its bits; XINT and XUINT are fixed point.
struct DataType {
  enum Type { INT, UINT, XINT, XUINT, FLOAT, BFLOAT, UNKNOWN };

  DataType() = default;
  // From a name such as "XINT8"; throws std::invalid_argument where it is none.
  DataType(const std::string& type);
  DataType(const char* type) : DataType(std::string(type)) {}
  DataType(const Type& type, const std::int32_t& bit_width)
      : type(type), bit_width(bit_width) {}

  bool valid() const { return type != UNKNOWN && bit_width > 0; }
  std::string to_string() const;

  friend bool operator==(const DataType& a, const DataType& b) {
    return a.type == b.type && a.bit_width == b.bit_width;
  }
  friend bool operator!=(const DataType& a, const DataType& b) { return !(a == b); }

  Type type = UNKNOWN;
  std::int32_t bit_width = 0;
};

// The type of C++ values in memory.
template <typename T>
DataType create_data_type() {
  static_assert(std::is_arithmetic_v<T>, "elements are integers or floats");
  constexpr auto bits = static_cast<std::int32_t>(sizeof(T) * CHAR_BIT);
  if (std::is_floating_point_v<T>) return {DataType::FLOAT, bits};
  return {std::is_signed_v<T> ? DataType::INT : DataType::UINT, bits};
}

}  // namespace xir
