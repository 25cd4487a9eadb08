// SPDX-License-Identifier: Apache-2.0
// Graphs and subgraphs.
#include "graph.hpp"

#include <algorithm>
#include <stdexcept>

#include "attrs.hpp"

namespace xir {

using opendpu::Gil;
using opendpu::Ref;
using opendpu::integer;
using opendpu::item;
using opendpu::length;
using opendpu::text;

std::unique_ptr<Tensor> Access::tensor(PyObject* described) {
  auto attrs = std::make_unique<opendpu::PythonAttrs>(Ref::borrowed(item(described, 0)));
  return std::unique_ptr<Tensor>(new Tensor(text(item(described, 1)),
                                            opendpu::integers(item(described, 2)),
                                            DataType(text(item(described, 3))), std::move(attrs)));
}

// From (object, name, type, arguments, tensor, inputs), an argument being (name, occurrence, kind).
std::unique_ptr<Op> Access::op(Graph* graph, PyObject* described) {
  std::vector<OpArgDef> arguments;
  PyObject* defined = item(described, 3);
  for (Py_ssize_t i = 0; i < length(defined); ++i) {
    PyObject* argument = item(defined, i);
    arguments.push_back({text(item(argument, 0)),
                         static_cast<OpArgDef::OccurenceType>(integer(item(argument, 1))),
                         static_cast<DataType::Type>(integer(item(argument, 2))), ""});
  }
  auto attrs = std::make_unique<opendpu::PythonAttrs>(Ref::borrowed(item(described, 0)));
  std::unique_ptr<Op> made(new Op(graph, text(item(described, 1)),
                                  OpDef(text(item(described, 2)), std::move(arguments)),
                                  std::move(attrs), tensor(item(described, 4))));
  made->tensor_->producer_ = made.get();
  return made;
}

// From [(argument, [number of an op])].
void Access::connect(Graph& graph, Op& op, PyObject* inputs) {
  for (Py_ssize_t i = 0; i < length(inputs); ++i) {
    PyObject* argument = item(inputs, i);
    std::vector<Op*> sources;
    for (const auto number : opendpu::integers(item(argument, 1))) {
      sources.push_back(graph.ops_.at(number).get());
      auto& fanout = sources.back()->fanout_;
      if (std::find(fanout.begin(), fanout.end(), &op) == fanout.end()) fanout.push_back(&op);
    }
    op.inputs_.emplace_back(text(item(argument, 0)), std::move(sources));
  }
}

// From (object, name, [number of an op], [number of an input's op], [of an output's op], children).
void Access::add_subgraph(Graph& graph, Subgraph* parent, PyObject* described,
                          std::vector<std::unique_ptr<Subgraph>>& known) {
  const auto same = std::find_if(known.begin(), known.end(), [&](const auto& candidate) {
    return candidate && candidate->object_ == item(described, 0);
  });
  if (same != known.end()) {
    graph.subgraphs_.push_back(std::move(*same));
  } else {
    auto attrs = std::make_unique<opendpu::PythonAttrs>(Ref::borrowed(item(described, 0)));
    graph.subgraphs_.emplace_back(new Subgraph(&graph, parent, "", std::move(attrs)));
    graph.subgraphs_.back()->object_ = Ref::borrowed(item(described, 0)).release();
  }
  Subgraph* made = graph.subgraphs_.back().get();
  made->parent_ = parent;
  made->name_ = text(item(described, 1));
  made->children_.clear();
  made->ops_.clear();
  made->inputs_.clear();
  made->outputs_.clear();
  for (const auto n : opendpu::integers(item(described, 2))) {
    made->ops_.push_back(graph.ops_.at(n).get());
  }
  for (const auto n : opendpu::integers(item(described, 3))) {
    made->inputs_.push_back(graph.ops_.at(n)->get_output_tensor());
  }
  for (const auto n : opendpu::integers(item(described, 4))) {
    made->outputs_.push_back(graph.ops_.at(n)->get_output_tensor());
  }
  if (parent) parent->children_.push_back(made);
  PyObject* children = item(described, 5);
  for (Py_ssize_t i = 0; i < length(children); ++i) {
    add_subgraph(graph, made, item(children, i), known);
  }
}

std::unique_ptr<Graph> Access::graph(Ref object) {
  auto attrs = std::make_unique<opendpu::PythonAttrs>(object);
  std::unique_ptr<Graph> made(
      new Graph(text(opendpu::call(object.get(), "get_name", {}).get()), std::move(attrs)));
  made->object_ = object.release();
  refresh(*made);
  return made;
}

void Access::refresh(Graph& graph) {
  const Ref described = opendpu::call("describe", {Access::object(&graph)});
  PyObject* ops = item(described.get(), 1);
  std::map<std::string, std::unique_ptr<Op>> before;
  for (auto& op : graph.ops_) {
    std::string name = op->get_name();
    before[name] = std::move(op);
  }
  graph.ops_.clear();
  for (Py_ssize_t i = 0; i < length(ops); ++i) {
    const auto known = before.find(text(item(item(ops, i), 1)));
    if (known == before.end()) {
      graph.ops_.push_back(op(&graph, item(ops, i)));
      continue;
    }
    graph.ops_.push_back(std::move(known->second));
    before.erase(known);
    graph.ops_.back()->inputs_.clear();
    graph.ops_.back()->fanout_.clear();
    update(*graph.ops_.back()->tensor_, item(item(ops, i), 4));
  }
  for (auto& [name, op] : before) graph.removed_ops_.push_back(std::move(op));
  for (Py_ssize_t i = 0; i < length(ops); ++i) {
    connect(graph, *graph.ops_[i], item(item(ops, i), 5));
  }
  std::vector<std::unique_ptr<Subgraph>> known;
  known.swap(graph.subgraphs_);
  add_subgraph(graph, nullptr, item(described.get(), 2), known);
  for (auto& subgraph : known) {
    if (subgraph) graph.removed_subgraphs_.push_back(std::move(subgraph));
  }
}

// To (object, name, dimensions, element type).
void Access::update(Tensor& tensor, PyObject* described) {
  tensor.name_ = text(item(described, 1));
  tensor.shape_ = opendpu::integers(item(described, 2));
  tensor.data_type_ = DataType(text(item(described, 3)));
  tensor.set_attrs(std::make_unique<opendpu::PythonAttrs>(Ref::borrowed(item(described, 0))));
}

Subgraph* Access::subgraph(const Graph& graph, PyObject* object) {
  for (const auto& subgraph : graph.subgraphs_) {
    if (subgraph->object_ == object) return subgraph.get();
  }
  return nullptr;
}

void Access::replace_tensor(Op& op, std::unique_ptr<Tensor> tensor) {
  op.tensor_ = std::move(tensor);
  op.tensor_->producer_ = &op;
}

Graph::Graph(std::string name, std::unique_ptr<Attrs> attrs)
    : Holder(std::move(attrs)), name_(std::move(name)) {}

Graph::~Graph() {
  Gil gil;
  Py_XDECREF(static_cast<PyObject*>(object_));
}

std::unique_ptr<Graph> Graph::deserialize(const std::string& file_path) {
  Gil gil;
  return Access::graph(opendpu::call("load", {opendpu::string(file_path).get()}));
}

std::unique_ptr<Graph> Graph::deserialize_from_string(const std::string& str) {
  Gil gil;
  const Ref bytes = opendpu::checked(
      PyBytes_FromStringAndSize(str.data(), static_cast<Py_ssize_t>(str.size())));
  return Access::graph(opendpu::call("load_bytes", {bytes.get()}));
}

void Graph::serialize(const std::string& file_path) const {
  Gil gil;
  opendpu::call(Access::object(this), "serialize", {opendpu::string(file_path).get()});
}

void Graph::serialize_to_string(std::string* str) const {
  Gil gil;
  const Ref bytes = opendpu::call(Access::object(this), "to_bytes", {});
  str->assign(PyBytes_AsString(bytes.get()), static_cast<std::size_t>(length(bytes.get())));
}

void Graph::save_to_dot(const std::string& file_path) const {
  Gil gil;
  opendpu::call(Access::object(this), "save_as_dot", {opendpu::string(file_path).get()});
}

void Graph::visualize(const std::string& file_path, const std::string& format) const {
  Gil gil;
  opendpu::call(Access::object(this), "save_as_image",
                {opendpu::string(file_path).get(), opendpu::string(format).get()});
}

namespace {

template <typename Pointer, typename Owners, typename Condition>
std::set<Pointer> those(const Owners& owners, Condition condition) {
  std::set<Pointer> found;
  for (const auto& owner : owners) {
    if (condition(*owner)) found.insert(owner.get());
  }
  return found;
}

const auto ANY = [](const Op&) { return true; };
const auto HEAD = [](const Op& op) { return op.get_input_num() == 0; };
const auto TAIL = [](const Op& op) { return op.get_fanout_num() == 0; };

}  // namespace

std::set<Op*> Graph::get_ops() { return those<Op*>(ops_, ANY); }
const std::set<const Op*> Graph::get_ops() const { return those<const Op*>(ops_, ANY); }
std::set<Op*> Graph::get_head_ops() { return those<Op*>(ops_, HEAD); }
const std::set<const Op*> Graph::get_head_ops() const { return those<const Op*>(ops_, HEAD); }
std::set<Op*> Graph::get_tail_ops() { return those<Op*>(ops_, TAIL); }
const std::set<const Op*> Graph::get_tail_ops() const { return those<const Op*>(ops_, TAIL); }

std::vector<Op*> Graph::topological_sort() {
  std::vector<Op*> made;
  for (const auto& op : ops_) made.push_back(op.get());
  return made;
}

const std::vector<const Op*> Graph::topological_sort() const {
  std::vector<const Op*> made;
  for (const auto& op : ops_) made.push_back(op.get());
  return made;
}

const Op* Graph::get_op(const std::string& op_name) const {
  for (const auto& op : ops_) {
    if (op->get_name() == op_name) return op.get();
  }
  return nullptr;
}

Op* Graph::get_op(const std::string& op_name) {
  return const_cast<Op*>(static_cast<const Graph*>(this)->get_op(op_name));
}

std::set<Tensor*> Graph::get_tensors() {
  std::set<Tensor*> found;
  for (const auto& op : ops_) found.insert(op->get_output_tensor());
  return found;
}

const std::set<const Tensor*> Graph::get_tensors() const {
  std::set<const Tensor*> found;
  for (const auto& op : ops_) found.insert(op->get_output_tensor());
  return found;
}

const Tensor* Graph::get_tensor(const std::string& tensor_name) const {
  for (const auto& op : ops_) {
    if (op->get_output_tensor()->get_name() == tensor_name) return op->get_output_tensor();
  }
  return nullptr;
}

Tensor* Graph::get_tensor(const std::string& tensor_name) {
  return const_cast<Tensor*>(static_cast<const Graph*>(this)->get_tensor(tensor_name));
}

Op* Graph::get_tensor_producer(const Tensor* tensor) {
  return get_root_subgraph()->get_tensor_producer(tensor);
}

const Op* Graph::get_tensor_producer(const Tensor* tensor) const {
  return get_root_subgraph()->get_tensor_producer(tensor);
}

const Subgraph* Graph::get_leaf_subgraph(const Op* op) const {
  const Subgraph* found = get_root_subgraph()->has_op(op) ? get_root_subgraph() : nullptr;
  while (found && !found->is_leaf()) found = found->find_op(op);
  return found;
}

Subgraph* Graph::get_leaf_subgraph(const Op* op) {
  return const_cast<Subgraph*>(static_cast<const Graph*>(this)->get_leaf_subgraph(op));
}

const Subgraph* Graph::get_subgraph(const std::string& name) const {
  for (const auto& subgraph : subgraphs_) {
    if (subgraph->get_name() == name) return subgraph.get();
  }
  return nullptr;
}

Subgraph* Graph::get_subgraph(const std::string& name) {
  return const_cast<Subgraph*>(static_cast<const Graph*>(this)->get_subgraph(name));
}

const std::string Graph::to_string(const std::string& delimiter, const std::string& left_bracket,
                                   const std::string& right_bracket) const {
  return left_bracket + "name: " + name_ + delimiter +
         " op_num: " + std::to_string(get_op_num()) + right_bracket;
}

}  // namespace xir
