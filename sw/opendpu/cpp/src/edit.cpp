// SPDX-License-Identifier: Apache-2.0
// What changes graphs: it happens in Python, and the objects of C++ follow.
#include <stdexcept>

#include "graph.hpp"

namespace xir {
namespace {

using opendpu::Gil;
using opendpu::Ref;

Ref list_of(const std::vector<Ref>& values) {
  Ref made = opendpu::checked(PyList_New(0));
  for (const auto& value : values) PyList_Append(made.get(), value.get());
  return made;
}

Ref names(const std::vector<Op*>& ops) {
  std::vector<Ref> made;
  for (const auto* op : ops) {
    if (!op) throw std::invalid_argument("an input is no op, but a null pointer");
    made.push_back(opendpu::string(op->get_name()));
  }
  return list_of(made);
}

// [(name, type in the file, value)]
Ref values(const Attrs& attrs) {
  std::vector<Ref> made;
  for (const auto& key : attrs.get_keys()) {
    const auto [kind, value] = opendpu::object_of(attrs.get_attr(key));
    made.push_back(opendpu::checked(PyTuple_Pack(3, opendpu::string(key).get(),
                                                 opendpu::string(kind).get(), value.get())));
  }
  return list_of(made);
}

}  // namespace

std::unique_ptr<Graph> Graph::create(const std::string& name) {
  Gil gil;
  return Access::graph(opendpu::call("create", {opendpu::string(name).get()}));
}

Op* Graph::add_op(const std::string& name, const std::string& type, std::unique_ptr<Attrs> attrs,
                  std::map<std::string, std::vector<Op*>> input_ops, Subgraph* subgraph) {
  Gil gil;
  std::vector<Ref> inputs;
  for (const auto& [argument, ops] : input_ops) {
    inputs.push_back(opendpu::checked(
        PyTuple_Pack(2, opendpu::string(argument).get(), names(ops).get())));
  }
  const auto given = attrs ? std::move(attrs) : Attrs::create();
  opendpu::call("add_op", {Access::object(this), opendpu::string(name).get(),
                           opendpu::string(type).get(), values(*given).get(),
                           list_of(inputs).get(),
                           subgraph ? Access::object(subgraph) : Py_None});
  Access::refresh(*this);
  return get_op(name);
}

void Graph::remove_op(Op* op) {
  if (!op) throw std::invalid_argument("the op to remove is a null pointer");
  if (op->get_graph() != this) {
    throw std::invalid_argument("op " + op->get_name() + " to remove is not in graph " + get_name());
  }
  Gil gil;
  opendpu::call("remove_op", {Access::object(this), opendpu::string(op->get_name()).get()});
  Access::refresh(*this);
}

void Op::set_input_ops(std::string arg_name, std::vector<Op*> op_list) {
  Gil gil;
  opendpu::call("set_input_ops", {Access::object(graph_), opendpu::string(name_).get(),
                                  opendpu::string(arg_name).get(), names(op_list).get()});
  Access::refresh(*graph_);
}

void Op::replace_input_op(Op* op_old, Op* op_new) {
  Gil gil;
  opendpu::call("replace_input_op", {Access::object(graph_), opendpu::string(name_).get(),
                                     opendpu::string(op_old->get_name()).get(),
                                     opendpu::string(op_new->get_name()).get()});
  Access::refresh(*graph_);
}

void Op::replace_output_tensor(std::unique_ptr<Tensor>&& tensor) {
  Gil gil;
  std::vector<Ref> sizes;
  for (const auto size : tensor->get_shape()) sizes.push_back(opendpu::number(size));
  opendpu::call("replace_output_tensor",
                {Access::object(graph_), opendpu::string(name_).get(),
                 opendpu::string(tensor->get_name()).get(), list_of(sizes).get(),
                 opendpu::string(tensor->get_data_type().to_string()).get(),
                 values(*tensor->get_attrs()).get()});
  Access::replace_tensor(*this, std::move(tensor));
  Access::refresh(*graph_);
}

void Op::shape_infer() {
  Gil gil;
  opendpu::call("infer_shape", {Access::object(graph_), opendpu::string(name_).get()});
  Access::refresh(*graph_);
}

void Subgraph::create_children() {
  Gil gil;
  opendpu::call(Access::object(this), "create_child_subgraph", {});
  Access::refresh(*graph_);
}

Subgraph* Subgraph::merge_children(std::set<Subgraph*> subgraph_list) {
  Gil gil;
  std::vector<Ref> children;
  for (const auto* child : subgraph_list) {
    if (!child) throw std::invalid_argument("a child is no subgraph, but a null pointer");
    children.push_back(Ref::borrowed(Access::object(child)));
  }
  const Ref made = opendpu::call(Access::object(this), "merge_children", {list_of(children).get()});
  Access::refresh(*graph_);
  return Access::subgraph(*graph_, made.get());
}

Subgraph* Subgraph::set_name(const std::string& name) {
  Gil gil;
  opendpu::call(Access::object(this), "set_name", {opendpu::string(name).get()});
  name_ = name;
  return this;
}

}  // namespace xir
