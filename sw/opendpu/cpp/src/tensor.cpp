// SPDX-License-Identifier: Apache-2.0
// Tensors and their element types.
#include "xir/tensor/tensor.hpp"

#include <cctype>
#include <stdexcept>

#include "xir/util/tool_function.hpp"

namespace xir {
namespace {

constexpr const char* NAMES[] = {"INT", "UINT", "XINT", "XUINT", "FLOAT", "BFLOAT", "UNKNOWN"};

}  // namespace

DataType::DataType(const std::string& type) {
  std::string letters, digits;
  for (const char sign : type) {
    const auto code = static_cast<unsigned char>(sign);
    (std::isdigit(code) ? digits : letters) += static_cast<char>(std::toupper(code));
  }
  for (int kind = INT; kind <= UNKNOWN; ++kind) {
    if (letters == NAMES[kind] && !digits.empty() && digits.size() <= 4) {
      this->type = static_cast<Type>(kind);
      bit_width = std::stoi(digits);
      return;
    }
  }
  throw std::invalid_argument("data type is " + type +
                              ", but must be a name such as XINT8 or FLOAT32");
}

std::string DataType::to_string() const { return NAMES[type] + std::to_string(bit_width); }

std::string remove_xfix(const std::string& name) {
  std::string made = name;
  for (auto close = made.find(')'); close != std::string::npos; close = made.find(')', close)) {
    const auto open = close ? made.rfind('(', close) : std::string::npos;
    if (open == std::string::npos) {
      ++close;  // of no pair
    } else {
      made.erase(open, close - open + 1);
      close = open;
    }
  }
  return made;
}

Tensor::Tensor(std::string name, std::vector<std::int32_t> shape, DataType type,
               std::unique_ptr<Attrs> attrs)
    : Holder(std::move(attrs)),
      name_(std::move(name)),
      shape_(std::move(shape)),
      data_type_(type) {}

std::unique_ptr<Tensor> Tensor::create(const std::string& name,
                                       const std::vector<std::int32_t>& shape,
                                       const DataType& data_type) {
  return std::unique_ptr<Tensor>(new Tensor(name, shape, data_type, Attrs::create()));
}

std::unique_ptr<Tensor> Tensor::create(const std::string& name,
                                       const std::vector<std::int32_t>& shape,
                                       const DataType::Type& data_type, std::int32_t bit_width) {
  return create(name, shape, DataType{data_type, bit_width});
}

std::unique_ptr<Tensor> Tensor::clone(const Tensor* tensor) {
  if (!tensor) throw std::invalid_argument("the tensor to clone is a null pointer");
  return clone(tensor, tensor->name_);
}

std::unique_ptr<Tensor> Tensor::clone(const Tensor* tensor, const std::string& name) {
  if (!tensor) throw std::invalid_argument("the tensor to clone is a null pointer");
  return std::unique_ptr<Tensor>(
      new Tensor(name, tensor->shape_, tensor->data_type_, tensor->get_attrs()));
}

Tensor* Tensor::rename(const std::string& name) {
  name_ = name;
  return this;
}

std::int32_t Tensor::get_element_num() const {
  std::int64_t number = 1;
  for (const auto size : shape_) number = limited(number * size);
  return static_cast<std::int32_t>(number);
}

std::int32_t Tensor::get_data_size() const {
  return limited((static_cast<std::int64_t>(get_element_num()) * data_type_.bit_width + 7) / 8);
}

std::int32_t Tensor::limited(std::int64_t size) const {
  const auto made = static_cast<std::int32_t>(size);
  if (made == size) return made;
  throw std::overflow_error("tensor " + to_string() + " has more than 2147483647 elements or bytes");
}

const std::string Tensor::to_string(const std::string& delimiter, const std::string& left_bracket,
                                    const std::string& right_bracket) const {
  std::string shape;
  for (const auto size : shape_) shape += (shape.empty() ? "" : ", ") + std::to_string(size);
  return left_bracket + "name: " + name_ + delimiter + " type: " + data_type_.to_string() +
         delimiter + " shape: {" + shape + "}" + right_bracket;
}

}  // namespace xir
