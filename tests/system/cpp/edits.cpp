// SPDX-License-Identifier: Apache-2.0
// Makes a graph, cuts it into subgraphs, changes it, and writes it.
#include <functional>
#include <iostream>

#include "xir/graph/graph.hpp"

static void refused(const std::string& what, const std::function<void()>& work) {
  try {
    work();
    std::cout << what << ": nothing was refused\n";
  } catch (const std::exception& error) {
    std::cout << what << ": " << error.what() << "\n";
  }
}

static xir::Op* constant(xir::Graph* graph, const std::string& name,
                         std::vector<std::int32_t> shape) {
  std::size_t bytes = 4;
  for (const auto size : shape) bytes *= size;
  auto attrs = xir::Attrs::create();
  attrs->set_attr<std::vector<std::int32_t>>("shape", shape)
      ->set_attr<std::string>("data_type", "FLOAT32")
      ->set_attr<std::vector<char>>("data", std::vector<char>(bytes, 0));
  return graph->add_op(name, "const", std::move(attrs), {});
}

static xir::Op* conv(xir::Graph* graph, const std::string& name, xir::Op* input, int channels) {
  auto attrs = xir::Attrs::create();
  attrs->set_attr<std::vector<std::int32_t>>("kernel", {3, 3});
  attrs->set_attr<std::vector<std::int32_t>>("stride", {1, 1});
  attrs->set_attr<std::string>("pad_mode", "SAME");
  const auto depth = input->get_output_tensor()->get_shape().back();
  auto* weights = constant(graph, name + "_w", {channels, 3, 3, depth});
  return graph->add_op(name, "conv2d", std::move(attrs),
                       {{"input", {input}}, {"weights", {weights}}});
}

int main(int, char* argv[]) {
  auto graph = xir::Graph::create("made");
  std::cout << graph->get_name() << " " << graph->get_op_num() << "\n";
  auto attrs = xir::Attrs::create();
  attrs->set_attr<std::vector<std::int32_t>>("shape", {1, 8, 6, 3});
  attrs->set_attr<std::string>("data_type", "FLOAT32");
  attrs->set_attr<std::uint64_t>("note", 1ull << 63);
  auto* data = graph->add_op("data", "data", std::move(attrs), {});
  auto* first = conv(graph.get(), "first", data, 4);
  auto* second = conv(graph.get(), "second", first, 5);
  auto* third = conv(graph.get(), "third", first, 2);
  auto axis = xir::Attrs::create();
  axis->set_attr<std::int32_t>("axis", 3);
  auto* both = graph->add_op("both", "concat", std::move(axis), {{"input", {second, third}}});
  auto* last = conv(graph.get(), "last", both, 6);
  std::cout << both->get_output_tensor()->to_string() << " " << first->get_fanout_num() << "\n";

  auto* root = graph->get_root_subgraph();
  refused("taken", [&] { conv(graph.get(), "last", both, 6); });
  refused("missing", [&] { graph->add_op("new", "conv2d", nullptr, {{"input", {data}}}); });
  refused("null", [&] { graph->add_op("new", "relu", nullptr, {{"input", {nullptr}}}); });
  refused("used", [&] { graph->remove_op(both); });
  refused("leaf", [&] { root->merge_children({root}); });

  root->create_children();
  std::cout << root->get_children_num() << " of " << graph->get_op_num() << "\n";
  std::set<xir::Subgraph*> front;
  for (const auto* name : {"data", "first_w", "first", "second_w", "second", "third_w", "third"}) {
    front.insert(root->find_op(name));
  }
  auto* dpu = root->merge_children(front)->set_name("front");
  dpu->set_attr<std::string>("device", "DPU");
  std::cout << dpu->get_name() << " " << dpu->get_op_num() << " " << root->get_children_num() << " "
            << root->find_op("third")->get_name() << " " << dpu->get_parent()->get_depth() << "\n";

  auto* relu = graph->add_op("relu", "relu", nullptr, {{"input", {both}}});
  last->replace_input_op(both, relu);
  last->set_input_ops("weights", {constant(graph.get(), "other_w", {7, 3, 3, 7})});
  last->shape_infer();
  graph->remove_op(graph->get_op("last_w"));
  auto tensor = xir::Tensor::create("renamed", {1, 8, 6, 7}, xir::DataType("FLOAT32"));
  tensor->set_attr<std::int32_t>("mark", 3);
  last->replace_output_tensor(std::move(tensor));
  std::cout << last->get_output_tensor()->to_string() << " "
            << last->get_output_tensor()->get_producer()->get_input_op("input")->get_name() << " "
            << last->get_output_tensor()->get_attr<std::int32_t>("mark") << " "
            << (graph->get_op("last_w") == nullptr) << " " << graph->get_tail_ops().size() << "\n";
  graph->serialize(argv[1]);
}
