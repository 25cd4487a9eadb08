// SPDX-License-Identifier: Apache-2.0
// Subgraphs: the tree that says which device runs which ops.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "xir/attrs/holder.hpp"
#include "xir/op/op.hpp"

namespace xir {

class Graph;

class Subgraph : public Holder<Subgraph> {
 public:
  const std::string get_name() const { return name_; }
  std::int32_t get_depth() const;
  bool is_root() const { return parent_ == nullptr; }
  bool is_leaf() const { return children_.empty(); }
  Subgraph* get_root();
  const Subgraph* get_root() const;
  Subgraph* get_parent() { return parent_; }
  const Subgraph* get_parent() const { return parent_; }
  Graph* get_graph() { return graph_; }
  const Graph* get_graph() const { return graph_; }

  std::int32_t get_op_num() const { return static_cast<std::int32_t>(ops_.size()); }
  std::set<Op*> get_ops() { return {ops_.begin(), ops_.end()}; }
  const std::set<const Op*> get_ops() const { return {ops_.begin(), ops_.end()}; }
  // Every op after its inputs.
  std::vector<Op*> topological_sort() { return ops_; }
  const std::vector<const Op*> topological_sort() const { return {ops_.begin(), ops_.end()}; }
  bool has_op(const std::string& op_name) const;
  bool has_op(const Op* op) const;
  Op* get_tensor_producer(const Tensor* tensor);
  const Op* get_tensor_producer(const Tensor* tensor) const;

  // Tensors that come from outside, and those that are used outside or by nobody.
  std::set<Tensor*> get_input_tensors() { return {inputs_.begin(), inputs_.end()}; }
  const std::set<const Tensor*> get_input_tensors() const {
    return {inputs_.begin(), inputs_.end()};
  }
  std::set<Tensor*> get_output_tensors() { return {outputs_.begin(), outputs_.end()}; }
  const std::set<const Tensor*> get_output_tensors() const {
    return {outputs_.begin(), outputs_.end()};
  }
  // By name.
  std::vector<Tensor*> get_sorted_input_tensors() { return inputs_; }
  const std::vector<const Tensor*> get_sorted_input_tensors() const {
    return {inputs_.begin(), inputs_.end()};
  }
  std::vector<Tensor*> get_sorted_output_tensors() { return outputs_; }
  const std::vector<const Tensor*> get_sorted_output_tensors() const {
    return {outputs_.begin(), outputs_.end()};
  }

  std::int32_t get_children_num() const { return static_cast<std::int32_t>(children_.size()); }
  std::set<Subgraph*> get_children() { return {children_.begin(), children_.end()}; }
  const std::set<const Subgraph*> get_children() const {
    return {children_.begin(), children_.end()};
  }
  // Every child after those that it takes tensors from.
  std::vector<Subgraph*> children_topological_sort() { return children_; }
  const std::vector<const Subgraph*> children_topological_sort() const {
    return {children_.begin(), children_.end()};
  }
  bool is_child(const Subgraph* subgraph) const;
  // Makes a child of each op; throws std::runtime_error where there are children.
  void create_children();
  // Makes one of several children, and returns it.
  Subgraph* merge_children(std::set<Subgraph*> subgraph_list);
  Subgraph* set_name(const std::string& name);
  // The child that holds an op, or nothing.
  Subgraph* find_op(const Op* op);
  const Subgraph* find_op(const Op* op) const;
  Subgraph* find_op(const std::string& op_name);
  const Subgraph* find_op(const std::string& op_name) const;
  // The child with a name, or nothing.
  Subgraph* get_subgraph(const std::string& name);
  const Subgraph* get_subgraph(const std::string& name) const;
  const std::string to_string(const std::string& delimiter = ",",
                              const std::string& left_bracket = "{",
                              const std::string& right_bracket = "}") const;

  ~Subgraph();

 private:
  friend class Access;
  Subgraph(Graph* graph, Subgraph* parent, std::string name, std::unique_ptr<Attrs> attrs);

  Graph* graph_;
  Subgraph* parent_;
  std::string name_;
  void* object_ = nullptr;  // of Python
  std::vector<Subgraph*> children_;
  std::vector<Op*> ops_;
  std::vector<Tensor*> inputs_;
  std::vector<Tensor*> outputs_;
};

}  // namespace xir
