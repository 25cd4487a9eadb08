// SPDX-License-Identifier: Apache-2.0
// Graphs of C++ for graphs of Python.
#pragma once

#include <memory>

#include "python.hpp"
#include "xir/graph/graph.hpp"

namespace xir {

// Builds objects from those of Python; the interpreter's lock is held.
class Access {
 public:
  static std::unique_ptr<Graph> graph(opendpu::Ref object);
  // Follows what has changed in Python: ops and subgraphs that remain stay where they are.
  static void refresh(Graph& graph);
  // From (object, name, dimensions, element type).
  static std::unique_ptr<Tensor> tensor(PyObject* described);
  // Borrowed.
  static PyObject* object(const Graph* graph) { return static_cast<PyObject*>(graph->object_); }
  static PyObject* object(const Subgraph* subgraph) {
    return static_cast<PyObject*>(subgraph->object_);
  }
  template <typename Named>
  static const std::string& name(const Named& named) {
    return named.name_;
  }
  // A child of a subgraph, by what it is in Python.
  static Subgraph* subgraph(const Graph& graph, PyObject* object);
  static void replace_tensor(Op& op, std::unique_ptr<Tensor> tensor);

 private:
  static std::unique_ptr<Op> op(Graph* graph, PyObject* described);
  static void connect(Graph& graph, Op& op, PyObject* inputs);
  static void update(Tensor& tensor, PyObject* described);
  static void add_subgraph(Graph& graph, Subgraph* parent, PyObject* described,
                           std::vector<std::unique_ptr<Subgraph>>& known);
};

}  // namespace xir
