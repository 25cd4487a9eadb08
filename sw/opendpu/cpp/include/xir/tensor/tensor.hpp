// SPDX-License-Identifier: Apache-2.0
// Tensors: names, shapes and element types of ops' results.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "xir/attrs/holder.hpp"
#include "xir/util/data_type.hpp"

namespace xir {

class Op;

class Tensor : public Holder<Tensor> {
 public:
  static std::unique_ptr<Tensor> create(const std::string& name,
                                        const std::vector<std::int32_t>& shape,
                                        const DataType& data_type);
  static std::unique_ptr<Tensor> create(const std::string& name,
                                        const std::vector<std::int32_t>& shape,
                                        const DataType::Type& data_type,
                                        std::int32_t bit_width);
  // A copy with its attributes, which no op produces.
  static std::unique_ptr<Tensor> clone(const Tensor* tensor);
  static std::unique_ptr<Tensor> clone(const Tensor* tensor, const std::string& name);

  const std::string get_name() const { return name_; }
  Tensor* rename(const std::string& name);
  const Op* get_producer() const { return producer_; }
  Op* get_producer() { return producer_; }
  // Channels last.
  const std::vector<std::int32_t> get_shape() const { return shape_; }
  const std::vector<std::int32_t> get_dims() const { return shape_; }
  std::int32_t get_dim_num() const { return static_cast<std::int32_t>(shape_.size()); }
  std::int32_t get_dim_size(std::int32_t idx) const { return shape_.at(idx); }
  // Throws std::overflow_error, as get_data_size does, where it is no std::int32_t.
  std::int32_t get_element_num() const;
  const DataType& get_data_type() const { return data_type_; }
  std::int32_t get_bit_width() const { return data_type_.bit_width; }
  // Bytes, without gaps.
  std::int32_t get_data_size() const;
  const std::string to_string(const std::string& delimiter = ",",
                              const std::string& left_bracket = "{",
                              const std::string& right_bracket = "}") const;

 private:
  friend class Access;
  Tensor(std::string name, std::vector<std::int32_t> shape, DataType type,
         std::unique_ptr<Attrs> attrs);
  std::int32_t limited(std::int64_t size) const;

  std::string name_;
  std::vector<std::int32_t> shape_;
  DataType data_type_;
  Op* producer_ = nullptr;
};

}  // namespace xir
