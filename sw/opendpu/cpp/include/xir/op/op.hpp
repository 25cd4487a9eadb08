// SPDX-License-Identifier: Apache-2.0
// Ops, the nodes of a graph.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "xir/attrs/holder.hpp"
#include "xir/op/op_def.hpp"
#include "xir/tensor/tensor.hpp"

namespace xir {

class Graph;

class Op : public Holder<Op> {
 public:
  const std::string get_name() const { return name_; }
  const std::string get_type() const { return definition_.name(); }
  const OpDef* get_opdef() const { return &definition_; }

  int get_input_num() const { return static_cast<int>(get_input_tensors().size()); }
  // Arguments that the op has not: none.
  int get_input_num(std::string arg_name) const;
  std::map<std::string, std::vector<Op*>> get_input_ops();
  const std::map<std::string, std::vector<const Op*>> get_input_ops() const;
  std::vector<Op*> get_input_ops(std::string arg_name);
  const std::vector<const Op*> get_input_ops(std::string arg_name) const;
  // Throws std::out_of_range where there is none.
  Op* get_input_op(std::string arg_name, int idx = 0);
  const Op* get_input_op(std::string arg_name, int idx = 0) const;

  int get_fanout_num() const { return static_cast<int>(fanout_.size()); }
  std::vector<Op*> get_fanout_ops() { return fanout_; }
  const std::vector<const Op*> get_fanout_ops() const;

  std::vector<Tensor*> get_input_tensors();
  const std::vector<const Tensor*> get_input_tensors() const;
  std::vector<Tensor*> get_input_tensors(std::string arg_name);
  const std::vector<const Tensor*> get_input_tensors(std::string arg_name) const;
  Tensor* get_input_tensor(std::string arg_name, int idx = 0);
  const Tensor* get_input_tensor(std::string arg_name, int idx = 0) const;
  Tensor* get_output_tensor() { return tensor_.get(); }
  const Tensor* get_output_tensor() const { return tensor_.get(); }

  // Let other ops' results in; throw std::runtime_error where they do not fit.
  void set_input_ops(std::string arg_name, std::vector<Op*> op_list);
  void replace_input_op(Op* op_old, Op* op_new);
  // Let the result be another tensor, until shapes are inferred again.
  void replace_output_tensor(std::unique_ptr<Tensor>&& tensor);
  void shape_infer();

  Graph* get_graph() { return graph_; }
  const Graph* get_graph() const { return graph_; }
  const std::string to_string(const std::string& delimiter = ",",
                              const std::string& left_bracket = "{",
                              const std::string& right_bracket = "}") const;

 private:
  friend class Access;
  Op(Graph* graph, std::string name, OpDef definition, std::unique_ptr<Attrs> attrs,
     std::unique_ptr<Tensor> tensor);

  const std::vector<Op*>* argument(const std::string& name) const;

  Graph* graph_;
  std::string name_;
  OpDef definition_;
  std::unique_ptr<Tensor> tensor_;
  std::vector<std::pair<std::string, std::vector<Op*>>> inputs_;
  std::vector<Op*> fanout_;
};

}  // namespace xir
