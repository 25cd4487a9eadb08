// SPDX-License-Identifier: Apache-2.0
// Subgraphs.
#include "xir/graph/subgraph.hpp"

#include <algorithm>

#include "python.hpp"

namespace xir {

Subgraph::Subgraph(Graph* graph, Subgraph* parent, std::string name, std::unique_ptr<Attrs> attrs)
    : Holder(std::move(attrs)), graph_(graph), parent_(parent), name_(std::move(name)) {}

Subgraph::~Subgraph() {
  opendpu::Gil gil;
  Py_XDECREF(static_cast<PyObject*>(object_));
}

std::int32_t Subgraph::get_depth() const { return parent_ ? parent_->get_depth() + 1 : 0; }

const Subgraph* Subgraph::get_root() const { return parent_ ? parent_->get_root() : this; }

Subgraph* Subgraph::get_root() { return parent_ ? parent_->get_root() : this; }

bool Subgraph::has_op(const std::string& op_name) const {
  return std::any_of(ops_.begin(), ops_.end(),
                     [&](const Op* op) { return op->get_name() == op_name; });
}

bool Subgraph::has_op(const Op* op) const {
  return std::find(ops_.begin(), ops_.end(), op) != ops_.end();
}

const Op* Subgraph::get_tensor_producer(const Tensor* tensor) const {
  for (const Op* op : ops_) {
    if (op->get_output_tensor()->get_name() == tensor->get_name()) return op;
  }
  return nullptr;
}

Op* Subgraph::get_tensor_producer(const Tensor* tensor) {
  return const_cast<Op*>(static_cast<const Subgraph*>(this)->get_tensor_producer(tensor));
}

bool Subgraph::is_child(const Subgraph* subgraph) const {
  return std::find(children_.begin(), children_.end(), subgraph) != children_.end();
}

const Subgraph* Subgraph::find_op(const Op* op) const {
  for (const Subgraph* child : children_) {
    if (child->has_op(op)) return child;
  }
  return nullptr;
}

Subgraph* Subgraph::find_op(const Op* op) {
  return const_cast<Subgraph*>(static_cast<const Subgraph*>(this)->find_op(op));
}

const Subgraph* Subgraph::find_op(const std::string& op_name) const {
  for (const Subgraph* child : children_) {
    if (child->has_op(op_name)) return child;
  }
  return nullptr;
}

Subgraph* Subgraph::find_op(const std::string& op_name) {
  return const_cast<Subgraph*>(static_cast<const Subgraph*>(this)->find_op(op_name));
}

const Subgraph* Subgraph::get_subgraph(const std::string& name) const {
  for (const Subgraph* child : children_) {
    if (child->get_name() == name) return child;
  }
  return nullptr;
}

Subgraph* Subgraph::get_subgraph(const std::string& name) {
  return const_cast<Subgraph*>(static_cast<const Subgraph*>(this)->get_subgraph(name));
}

const std::string Subgraph::to_string(const std::string& delimiter,
                                      const std::string& left_bracket,
                                      const std::string& right_bracket) const {
  return left_bracket + "name: " + name_ + delimiter +
         " op_num: " + std::to_string(get_op_num()) + right_bracket;
}

}  // namespace xir
