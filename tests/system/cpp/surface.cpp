// SPDX-License-Identifier: Apache-2.0
// Prints a graph as C++ sees it, for comparison with what Python sees; then what is refused.
#include <functional>
#include <iostream>

#include "vart/mm/host_flat_tensor_buffer.hpp"
#include "vart/runner_ext.hpp"
#include "xir/graph/graph.hpp"
#include "xir/util/tool_function.hpp"

static void show(const xir::Subgraph* subgraph) {
  std::cout << "subgraph " << subgraph->get_name() << " " << subgraph->get_depth() << " "
            << subgraph->get_op_num() << " " << subgraph->get_children_num();
  for (const auto* tensor : subgraph->get_sorted_input_tensors()) {
    std::cout << " <" << tensor->get_name();
  }
  for (const auto* tensor : subgraph->get_sorted_output_tensors()) {
    std::cout << " >" << tensor->get_name();
  }
  std::cout << "\n";
  for (const auto* child : subgraph->children_topological_sort()) show(child);
}

static void show(const xir::Op* op) {
  const auto* tensor = op->get_output_tensor();
  std::cout << "op " << op->get_name() << " " << op->get_type() << " "
            << tensor->get_data_type().to_string();
  for (const auto size : tensor->get_shape()) std::cout << " " << size;
  std::cout << " " << tensor->get_data_size() << " " << op->get_fanout_num();
  for (const auto& definition : op->get_opdef()->input_args()) {
    std::cout << " " << definition.name << "=" << op->get_input_num(definition.name);
    for (const auto* input : op->get_input_ops(definition.name)) {
      std::cout << "," << input->get_name();
    }
  }
  std::cout << "\n";
}

static void refused(const std::string& what, const std::function<void()>& work) {
  try {
    work();
    std::cout << what << ": nothing was refused\n";
  } catch (const std::exception& error) {
    std::cout << what << ": " << error.what() << "\n";
  }
}

static void attributes(xir::Graph* graph, const std::string& copy) {
  auto* root = graph->get_root_subgraph();
  root->set_attr<int>("number", -5)
      ->set_attr("text", std::string("t"))
      ->set_attr("list", std::vector<std::int32_t>{1, 2})
      ->set_attr("map", std::map<std::string, std::uint64_t>{{"k", 1ull << 63}})
      ->set_attr("bytes", std::vector<char>{'\0', 'x'});
  graph->serialize(copy);
  auto again = xir::Graph::deserialize(copy);
  auto* other = again->get_root_subgraph();
  std::cout << other->get_attr<int>("number") << other->get_attr<std::string>("text")
            << other->get_attr<std::vector<std::int32_t>>("list").size()
            << (other->get_attr<std::map<std::string, std::uint64_t>>("map").at("k") >> 63)
            << other->get_attr<std::vector<char>>("bytes")[1]
            << other->get_attrs()->has_attr("text", typeid(int)) << other->del_attr("text")
            << other->has_attr("text") << "\n";
  std::string bytes;
  again->serialize_to_string(&bytes);
  std::cout << xir::Graph::deserialize_from_string(bytes)->get_op_num() - graph->get_op_num() << "\n";
}

int main(int, char* argv[]) {
  auto graph = xir::Graph::deserialize(argv[1]);
  std::cout << "graph " << graph->get_name() << " " << graph->get_op_num() << " "
            << graph->get_head_ops().size() << " " << graph->get_tail_ops().size() << "\n";
  const xir::Graph* view = graph.get();
  for (const auto* op : view->topological_sort()) show(op);
  show(view->get_root_subgraph());
  attributes(graph.get(), argv[2]);
  auto* op = graph->topological_sort().back();
  auto* leaf = graph->get_leaf_subgraph(op);
  std::cout << (leaf->has_op(op) && leaf->is_leaf() && leaf->get_root()->is_root() &&
                graph->get_op(op->get_name()) == op && !graph->get_op("nobody") &&
                graph->get_tensor(op->get_output_tensor()->get_name())->get_producer() == op &&
                op->get_graph() == graph.get() &&
                graph->get_root_subgraph()->find_op(op)->get_parent()->is_root())
            << "\n";
  std::cout << xir::remove_xfix("a(b(c))d)(e") << " " << xir::DataType("xint8").bit_width << "\n";
  refused("file", [&] { xir::Graph::deserialize(std::string(argv[1]) + ".missing"); });
  refused("bytes", [] { xir::Graph::deserialize_from_string("nonsense"); });
  refused("attribute", [&] { op->get_attr<int>("nothing"); });
  refused("type", [&] { graph->get_root_subgraph()->get_attr<float>("number"); });
  refused("input", [&] { op->get_input_op("input", 99); });
  refused("data type", [] { xir::DataType("int"); });
  xir::Subgraph *dpu = nullptr, *user = nullptr;
  for (auto* child : graph->get_root_subgraph()->children_topological_sort()) {
    const auto device = child->get_attr<std::string>("device");
    (device == "DPU" ? dpu : device == "USER" ? user : leaf) = child;
  }
  refused("device", [&] { vart::Runner::create_runner(user, "run"); });
  refused("mode", [&] { vart::Runner::create_runner(dpu, "walk"); });
  refused("no subgraph", [&] { vart::Runner::create_runner(nullptr, "run"); });
  auto attrs = xir::Attrs::create();
  auto runner = vart::RunnerExt::create_runner(dpu, attrs.get());
  refused("buffers", [&] { runner->execute_async({}, runner->get_outputs()); });
  auto small = xir::Tensor::create("small", {1, 1}, xir::DataType{xir::DataType::XINT, 8});
  vart::mm::HostFlatTensorBuffer buffer(small.get());
  refused("size", [&] { runner->execute_async({&buffer}, runner->get_outputs()); });
  refused("index", [&] { buffer.data({0, 1}); });
  refused("more indices", [&] {
    if (buffer.data({0, 0, 0, 0}) != buffer.data({0, 0})) throw std::runtime_error("another place");
    buffer.data({0, 0, 1});
  });
  refused("copy", [&] { buffer.copy_from_host(0, argv, 2, 0); });
  std::cout << "wait " << runner->wait(77, 1) << "\n";
}
