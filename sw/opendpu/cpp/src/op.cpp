// SPDX-License-Identifier: Apache-2.0
// Ops.
#include "xir/op/op.hpp"

#include <stdexcept>

namespace xir {

Op::Op(Graph* graph, std::string name, OpDef definition, std::unique_ptr<Attrs> attrs,
       std::unique_ptr<Tensor> tensor)
    : Holder(std::move(attrs)),
      graph_(graph),
      name_(std::move(name)),
      definition_(std::move(definition)),
      tensor_(std::move(tensor)) {}

const std::vector<Op*>* Op::argument(const std::string& name) const {
  for (const auto& [own, ops] : inputs_) {
    if (own == name) return &ops;
  }
  return nullptr;
}

int Op::get_input_num(std::string arg_name) const {
  const auto* ops = argument(arg_name);
  return ops ? static_cast<int>(ops->size()) : 0;
}

std::map<std::string, std::vector<Op*>> Op::get_input_ops() {
  return {inputs_.begin(), inputs_.end()};
}

const std::map<std::string, std::vector<const Op*>> Op::get_input_ops() const {
  std::map<std::string, std::vector<const Op*>> made;
  for (const auto& [name, ops] : inputs_) made[name] = {ops.begin(), ops.end()};
  return made;
}

std::vector<Op*> Op::get_input_ops(std::string arg_name) {
  const auto* ops = argument(arg_name);
  return ops ? *ops : std::vector<Op*>();
}

const std::vector<const Op*> Op::get_input_ops(std::string arg_name) const {
  const auto* ops = argument(arg_name);
  if (!ops) return {};
  return {ops->begin(), ops->end()};
}

const Op* Op::get_input_op(std::string arg_name, int idx) const {
  const auto* ops = argument(arg_name);
  if (!ops || idx < 0 || idx >= static_cast<int>(ops->size())) {
    throw std::out_of_range("op " + name_ + " has no input " + std::to_string(idx) +
                            " of argument " + arg_name);
  }
  return (*ops)[idx];
}

Op* Op::get_input_op(std::string arg_name, int idx) {
  return const_cast<Op*>(static_cast<const Op*>(this)->get_input_op(arg_name, idx));
}

const std::vector<const Op*> Op::get_fanout_ops() const {
  return {fanout_.begin(), fanout_.end()};
}

std::vector<Tensor*> Op::get_input_tensors() {
  std::vector<Tensor*> made;
  for (const auto& [name, ops] : inputs_) {
    for (Op* op : ops) made.push_back(op->get_output_tensor());
  }
  return made;
}

const std::vector<const Tensor*> Op::get_input_tensors() const {
  std::vector<const Tensor*> made;
  for (const auto& [name, ops] : inputs_) {
    for (const Op* op : ops) made.push_back(op->get_output_tensor());
  }
  return made;
}

std::vector<Tensor*> Op::get_input_tensors(std::string arg_name) {
  std::vector<Tensor*> made;
  for (Op* op : get_input_ops(arg_name)) made.push_back(op->get_output_tensor());
  return made;
}

const std::vector<const Tensor*> Op::get_input_tensors(std::string arg_name) const {
  std::vector<const Tensor*> made;
  for (const Op* op : get_input_ops(arg_name)) made.push_back(op->get_output_tensor());
  return made;
}

Tensor* Op::get_input_tensor(std::string arg_name, int idx) {
  return get_input_op(arg_name, idx)->get_output_tensor();
}

const Tensor* Op::get_input_tensor(std::string arg_name, int idx) const {
  return get_input_op(arg_name, idx)->get_output_tensor();
}

const std::string Op::to_string(const std::string& delimiter, const std::string& left_bracket,
                                const std::string& right_bracket) const {
  return left_bracket + "name: " + name_ + delimiter + " type: " + get_type() + right_bracket;
}

}  // namespace xir
