// SPDX-License-Identifier: Apache-2.0
// Graphs for programs in C: what throws ends them, with the reason, by std::terminate.
#include "c_api.hpp"
#include "graph.hpp"
#include "xir/cxir.h"

using opendpu::copy_pointers;
using opendpu::each;
using opendpu::object;
using opendpu::pointer;
using xir::Access;
using xir::Attrs;
using xir::Graph;
using xir::Op;
using xir::Subgraph;
using xir::Tensor;

namespace {

xir_string_t view(const std::string& text) { return {text.data(), text.size()}; }

std::string text(xir_string_t view) { return {view.data, view.size}; }

xir_attr_value_tag_t assign(xir_attr_value_t& value, bool found) {
  value.u.bool_value = {found};
  return XIR_ATTR_TYPE_TAG_bool;
}
xir_attr_value_tag_t assign(xir_attr_value_t& value, const std::string& found) {
  value.u.string_value = view(found);
  return XIR_ATTR_TYPE_TAG_string;
}
xir_attr_value_tag_t assign(xir_attr_value_t& value, const std::vector<char>& found) {
  value.u.bytes_value = {const_cast<char*>(found.data()), found.size()};
  return XIR_ATTR_TYPE_TAG_bytes;
}
#define ASSIGN_NUMBER(type, name)                                         \
  xir_attr_value_tag_t assign(xir_attr_value_t& value, const type& found) { \
    value.u.name##_value = found;                                         \
    return XIR_ATTR_TYPE_TAG_##name;                                      \
  }
ASSIGN_NUMBER(std::int8_t, i8)
ASSIGN_NUMBER(std::int16_t, i16)
ASSIGN_NUMBER(std::int32_t, i32)
ASSIGN_NUMBER(std::int64_t, i64)
ASSIGN_NUMBER(std::uint8_t, u8)
ASSIGN_NUMBER(std::uint16_t, u16)
ASSIGN_NUMBER(std::uint32_t, u32)
ASSIGN_NUMBER(std::uint64_t, u64)
ASSIGN_NUMBER(float, f32)
ASSIGN_NUMBER(double, f64)
#undef ASSIGN_NUMBER

template <typename... Types>
void take(xir_attr_value_t& value, const xir::any& found) {
  const auto one = [&](auto* typed) {
    if (typed) value.tag = assign(value, *typed);
  };
  (one(std::any_cast<Types>(&found)), ...);
}

}  // namespace

extern "C" {

xir_graph_t xir_graph_deserialize(const char* file_path) {
  return Graph::deserialize(file_path).release();
}
void xir_graph_serialize(const xir_graph_t graph, const char* file_path) {
  object<Graph>(graph)->serialize(file_path);
}
int xir_graph_destroy(xir_graph_t graph) {
  delete object<Graph>(graph);
  return 0;
}
const char* xir_graph_get_name(xir_graph_t graph) {
  return Access::name(*object<Graph>(graph)).c_str();
}
xir_subgraph_t xir_graph_get_root_subgraph(xir_graph_t graph) {
  return object<Graph>(graph)->get_root_subgraph();
}
xir_subgraph_t xir_graph_get_leaf_subgraph(xir_graph_t graph, xir_op_t op) {
  return object<Graph>(graph)->get_leaf_subgraph(object<Op>(op));
}
xir_subgraph_t xir_graph_get_subgraph(xir_graph_t graph, xir_string_t name) {
  return object<Graph>(graph)->get_subgraph(text(name));
}
int xir_graph_get_op_num(xir_graph_t graph) { return object<Graph>(graph)->get_op_num(); }
void xir_graph_get_ops(xir_graph_t graph, xir_op_t ops[]) {
  copy_pointers(object<Graph>(graph)->topological_sort(), ops);
}
xir_op_t xir_graph_get_op(xir_graph_t graph, xir_string_t name) {
  return object<Graph>(graph)->get_op(text(name));
}
xir_tensor_t xir_graph_get_tensor(xir_graph_t graph, xir_string_t name) {
  return object<Graph>(graph)->get_tensor(text(name));
}
xir_op_t xir_graph_get_tensor_producer(xir_graph_t graph, xir_tensor_t tensor) {
  return object<Graph>(graph)->get_tensor_producer(object<Tensor>(tensor));
}
void xir_graph_topological_sort(xir_graph_t graph, void* data,
                                xir_get_op_callback_t callback) {
  each(object<Graph>(graph)->topological_sort(), callback, data);
}
xir_attrs_t xir_graph_get_attrs(xir_graph_t graph) {
  return object<Graph>(graph)->get_attrs().release();
}

xir_string_t xir_subgraph_get_name(xir_subgraph_t subgraph) {
  return view(Access::name(*object<Subgraph>(subgraph)));
}
int32_t xir_subgraph_get_op_num(xir_subgraph_t subgraph) {
  return object<Subgraph>(subgraph)->get_op_num();
}
void xir_subgraph_get_ops(xir_subgraph_t subgraph, void* data,
                          xir_get_op_callback_t callback) {
  each(object<Subgraph>(subgraph)->topological_sort(), callback, data);
}
int xir_subgraph_has_op(xir_subgraph_t subgraph, xir_op_t op) {
  return object<Subgraph>(subgraph)->has_op(object<Op>(op));
}
void xir_subgraph_get_input_tensors(xir_subgraph_t subgraph, void* data,
                                    xir_get_tensor_callback_t callback) {
  each(object<Subgraph>(subgraph)->get_sorted_input_tensors(), callback, data);
}
void xir_subgraph_get_output_tensors(xir_subgraph_t subgraph, void* data,
                                     xir_get_tensor_callback_t callback) {
  each(object<Subgraph>(subgraph)->get_sorted_output_tensors(), callback, data);
}
int xir_subgraph_is_root(xir_subgraph_t subgraph) {
  return object<Subgraph>(subgraph)->is_root();
}
int xir_subgraph_is_leaf(xir_subgraph_t subgraph) {
  return object<Subgraph>(subgraph)->is_leaf();
}
xir_subgraph_t xir_subgraph_get_root(xir_subgraph_t subgraph) {
  return object<Subgraph>(subgraph)->get_root();
}
xir_subgraph_t xir_subgraph_get_parent(xir_subgraph_t subgraph) {
  return object<Subgraph>(subgraph)->get_parent();
}
int32_t xir_subgraph_get_depth(xir_subgraph_t subgraph) {
  return object<Subgraph>(subgraph)->get_depth();
}
xir_graph_t xir_subgraph_get_graph(xir_subgraph_t subgraph) {
  return object<Subgraph>(subgraph)->get_graph();
}
int32_t xir_subgraph_get_children_num(xir_subgraph_t subgraph) {
  return object<Subgraph>(subgraph)->get_children_num();
}
void xir_subgraph_get_children(xir_subgraph_t subgraph, xir_subgraph_t children[]) {
  copy_pointers(object<Subgraph>(subgraph)->children_topological_sort(), children);
}
void xir_subgraph_children_topological_sort(xir_subgraph_t subgraph,
                                            xir_subgraph_t children[]) {
  xir_subgraph_get_children(subgraph, children);
}
int xir_subgraph_has_attrs(xir_subgraph_t subgraph) {
  return object<Subgraph>(subgraph)->has_attrs();
}
int xir_subgraph_has_attr(xir_subgraph_t subgraph, const char* key) {
  return object<Subgraph>(subgraph)->has_attr(key);
}
xir_attrs_t xir_subgraph_get_attrs(xir_subgraph_t subgraph) {
  return object<Subgraph>(subgraph)->get_attrs().release();
}

xir_string_t xir_op_get_name(xir_op_t op) { return view(Access::name(*object<Op>(op))); }
xir_string_t xir_op_get_type(xir_op_t op) {
  return view(object<Op>(op)->get_opdef()->name());
}
int xir_op_get_input_num(xir_op_t op) { return object<Op>(op)->get_input_num(); }
xir_op_t xir_op_get_input_op(xir_op_t op, xir_string_t arg_name, int idx) {
  return object<Op>(op)->get_input_op(text(arg_name), idx);
}
xir_tensor_t xir_op_get_input_tensor(xir_op_t op, xir_string_t arg_name, int idx) {
  return object<Op>(op)->get_input_tensor(text(arg_name), idx);
}
int xir_op_get_fanout_num(xir_op_t op) { return object<Op>(op)->get_fanout_num(); }
void xir_op_get_fanout_ops(xir_op_t op, void* data, xir_get_op_callback_t callback) {
  each(object<Op>(op)->get_fanout_ops(), callback, data);
}
xir_tensor_t xir_op_get_output_tensor(xir_op_t op) {
  return object<Op>(op)->get_output_tensor();
}
xir_graph_t xir_op_get_graph(xir_op_t op) { return object<Op>(op)->get_graph(); }
int xir_op_has_attr(xir_op_t op, const char* key) { return object<Op>(op)->has_attr(key); }
xir_attrs_t xir_op_get_attrs(xir_op_t op) {
  return object<Op>(op)->get_attrs().release();
}

xir_string_t xir_tensor_get_name(xir_tensor_t tensor) {
  return view(Access::name(*object<Tensor>(tensor)));
}
int32_t xir_tensor_get_bit_width(xir_tensor_t tensor) {
  return object<Tensor>(tensor)->get_bit_width();
}
int32_t xir_tensor_get_dim_num(xir_tensor_t tensor) {
  return object<Tensor>(tensor)->get_dim_num();
}
int32_t xir_tensor_get_dim_size(xir_tensor_t tensor, int32_t idx) {
  return object<Tensor>(tensor)->get_dim_size(idx);
}
xir_tensor_data_type_t xir_tensor_get_data_type(xir_tensor_t tensor) {
  const auto type = object<Tensor>(tensor)->get_data_type().type;
  return type <= xir::DataType::FLOAT ? static_cast<xir_tensor_data_type_t>(type) : UNKNOWN;
}
int64_t xir_tensor_get_element_num(xir_tensor_t tensor) {
  return object<Tensor>(tensor)->get_element_num();
}
uint64_t xir_tensor_get_data_size(xir_tensor_t tensor) {
  return object<Tensor>(tensor)->get_data_size();
}
xir_attrs_t xir_tensor_get_attrs(xir_tensor_t tensor) {
  return object<Tensor>(tensor)->get_attrs().release();
}

void xir_attrs_destroy(xir_attrs_t attrs) { delete object<Attrs>(attrs); }
size_t xir_attrs_get_num_of_keys(xir_attrs_t attrs) {
  return object<Attrs>(attrs)->get_keys().size();
}
xir_attr_value_t xir2_attrs_get(xir_attrs_t attrs, xir_string_t key) {
  xir_attr_value_t value{};
  const auto& every = *object<Attrs>(attrs);
  if (every.has_attr(text(key))) {
    take<bool, std::int8_t, std::int16_t, std::int32_t, std::int64_t, std::uint8_t, std::uint16_t,
         std::uint32_t, std::uint64_t, float, double, std::string, std::vector<char>>(
        value, every.get_attr(text(key)));
  }
  return value;
}

}  // extern "C"
