// SPDX-License-Identifier: Apache-2.0
// Graphs: the models in .xmodel files.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "xir/attrs/holder.hpp"
#include "xir/graph/subgraph.hpp"
#include "xir/op/op.hpp"
#include "xir/util/data_type.hpp"

namespace xir {

class Graph : public Holder<Graph> {
 public:
  // A graph without ops.
  static std::unique_ptr<Graph> create(const std::string& name);
  // Throws std::runtime_error, with the reason, where the file holds no graph.
  static std::unique_ptr<Graph> deserialize(const std::string& file_path);
  static std::unique_ptr<Graph> deserialize_from_string(const std::string& str);
  void serialize(const std::string& file_path) const;
  void serialize_to_string(std::string* str) const;
  void save_to_dot(const std::string& file_path) const;
  void visualize(const std::string& file_path, const std::string& format) const;

  const std::string get_name() const { return name_; }
  Subgraph* get_root_subgraph() { return subgraphs_.front().get(); }
  const Subgraph* get_root_subgraph() const { return subgraphs_.front().get(); }
  // The leaf that holds an op, or nothing.
  Subgraph* get_leaf_subgraph(const Op* op);
  const Subgraph* get_leaf_subgraph(const Op* op) const;
  Subgraph* get_subgraph(const std::string& name);
  const Subgraph* get_subgraph(const std::string& name) const;

  int get_op_num() const { return static_cast<int>(ops_.size()); }
  std::set<Op*> get_ops();
  const std::set<const Op*> get_ops() const;
  // Every op after its inputs.
  std::vector<Op*> topological_sort();
  const std::vector<const Op*> topological_sort() const;
  std::set<Op*> get_head_ops();
  const std::set<const Op*> get_head_ops() const;
  std::set<Op*> get_tail_ops();
  const std::set<const Op*> get_tail_ops() const;
  // By name; nothing where there is none.
  Op* get_op(const std::string& op_name);
  const Op* get_op(const std::string& op_name) const;
  std::set<Tensor*> get_tensors();
  const std::set<const Tensor*> get_tensors() const;
  Tensor* get_tensor(const std::string& tensor_name);
  const Tensor* get_tensor(const std::string& tensor_name) const;
  Op* get_tensor_producer(const Tensor* tensor);
  const Op* get_tensor_producer(const Tensor* tensor) const;

  // Adds an op, and infers the shape of its result; its arguments are ops of this graph. Throws
  // std::runtime_error where the name is taken or something does not fit; nothing has changed then.
  Op* add_op(const std::string& name, const std::string& type, std::unique_ptr<Attrs> attrs,
             std::map<std::string, std::vector<Op*>> input_ops, Subgraph* subgraph = nullptr);
  // Throws std::runtime_error where another op takes its result. The op must not be used any more.
  void remove_op(Op* op);

  const std::string to_string(const std::string& delimiter = ",",
                              const std::string& left_bracket = "{",
                              const std::string& right_bracket = "}") const;

  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

 private:
  friend class Access;
  Graph(std::string name, std::unique_ptr<Attrs> attrs);

  std::string name_;
  void* object_ = nullptr;  // of Python
  std::vector<std::unique_ptr<Op>> ops_;
  std::vector<std::unique_ptr<Subgraph>> subgraphs_;  // the root is the first
  std::vector<std::unique_ptr<Op>> removed_ops_;      // somebody may still hold them
  std::vector<std::unique_ptr<Subgraph>> removed_subgraphs_;
};

}  // namespace xir
