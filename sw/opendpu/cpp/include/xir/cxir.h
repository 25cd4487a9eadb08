/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs for programs in C that read them. What goes wrong ends the process with the reason; what is
 * looked for and not there is NULL. Pointers and strings live as long as the graph. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef void* xir_graph_t;
typedef void* xir_subgraph_t;
typedef void* xir_op_t;
typedef void* xir_tensor_t;
typedef void* xir_attrs_t;

typedef struct {
  const char* data; /* ends with a 0, which size does not count */
  size_t size;
} xir_string_t;
typedef struct {
  char* data;
  size_t size;
} xir_bytes_t;
typedef struct {
  int value;
} xir_bool_t;

enum xir_tensor_data_type_t { XIR_INT, XIR_UINT, XIR_XINT, XIR_XUINT, XIR_FLOAT, UNKNOWN };

typedef void (*xir_get_op_callback_t)(void* data, xir_op_t op);
typedef void (*xir_get_tensor_callback_t)(void* data, xir_tensor_t tensor);

/* Graphs */
xir_graph_t xir_graph_deserialize(const char* file_path);
void xir_graph_serialize(const xir_graph_t graph, const char* file_path);
int xir_graph_destroy(xir_graph_t graph); /* 0 */
const char* xir_graph_get_name(xir_graph_t graph);
xir_subgraph_t xir_graph_get_root_subgraph(xir_graph_t graph);
xir_subgraph_t xir_graph_get_leaf_subgraph(xir_graph_t graph, xir_op_t op);
xir_subgraph_t xir_graph_get_subgraph(xir_graph_t graph, xir_string_t name);
int xir_graph_get_op_num(xir_graph_t graph);
void xir_graph_get_ops(xir_graph_t graph, xir_op_t ops[]); /* in topological order */
xir_op_t xir_graph_get_op(xir_graph_t graph, xir_string_t name);
xir_tensor_t xir_graph_get_tensor(xir_graph_t graph, xir_string_t name);
xir_op_t xir_graph_get_tensor_producer(xir_graph_t graph, xir_tensor_t tensor);
void xir_graph_topological_sort(xir_graph_t graph, void* data, xir_get_op_callback_t callback);
xir_attrs_t xir_graph_get_attrs(xir_graph_t graph);

/* Subgraphs */
xir_string_t xir_subgraph_get_name(xir_subgraph_t subgraph);
int32_t xir_subgraph_get_op_num(xir_subgraph_t subgraph);
void xir_subgraph_get_ops(xir_subgraph_t subgraph, void* data, xir_get_op_callback_t callback);
int xir_subgraph_has_op(xir_subgraph_t subgraph, xir_op_t op);
void xir_subgraph_get_input_tensors(xir_subgraph_t subgraph, void* data,
                                    xir_get_tensor_callback_t callback);
void xir_subgraph_get_output_tensors(xir_subgraph_t subgraph, void* data,
                                     xir_get_tensor_callback_t callback);
int xir_subgraph_is_root(xir_subgraph_t subgraph);
int xir_subgraph_is_leaf(xir_subgraph_t subgraph);
xir_subgraph_t xir_subgraph_get_root(xir_subgraph_t subgraph);
xir_subgraph_t xir_subgraph_get_parent(xir_subgraph_t subgraph);
int32_t xir_subgraph_get_depth(xir_subgraph_t subgraph);
xir_graph_t xir_subgraph_get_graph(xir_subgraph_t subgraph);
int32_t xir_subgraph_get_children_num(xir_subgraph_t subgraph);
void xir_subgraph_get_children(xir_subgraph_t subgraph, xir_subgraph_t children[]);
void xir_subgraph_children_topological_sort(xir_subgraph_t subgraph, xir_subgraph_t children[]);
int xir_subgraph_has_attrs(xir_subgraph_t subgraph);
int xir_subgraph_has_attr(xir_subgraph_t subgraph, const char* key);
xir_attrs_t xir_subgraph_get_attrs(xir_subgraph_t subgraph);

/* Ops */
xir_string_t xir_op_get_name(xir_op_t op);
xir_string_t xir_op_get_type(xir_op_t op);
int xir_op_get_input_num(xir_op_t op);
xir_op_t xir_op_get_input_op(xir_op_t op, xir_string_t arg_name, int idx);
xir_tensor_t xir_op_get_input_tensor(xir_op_t op, xir_string_t arg_name, int idx);
int xir_op_get_fanout_num(xir_op_t op);
void xir_op_get_fanout_ops(xir_op_t op, void* data, xir_get_op_callback_t callback);
xir_tensor_t xir_op_get_output_tensor(xir_op_t op);
xir_graph_t xir_op_get_graph(xir_op_t op);
int xir_op_has_attr(xir_op_t op, const char* key);
xir_attrs_t xir_op_get_attrs(xir_op_t op);

/* Tensors */
xir_string_t xir_tensor_get_name(xir_tensor_t tensor);
int32_t xir_tensor_get_bit_width(xir_tensor_t tensor);
int32_t xir_tensor_get_dim_num(xir_tensor_t tensor);
int32_t xir_tensor_get_dim_size(xir_tensor_t tensor, int32_t idx);
enum xir_tensor_data_type_t xir_tensor_get_data_type(xir_tensor_t tensor);
int64_t xir_tensor_get_element_num(xir_tensor_t tensor);
uint64_t xir_tensor_get_data_size(xir_tensor_t tensor); /* bytes */
xir_attrs_t xir_tensor_get_attrs(xir_tensor_t tensor);

/* Attributes: copies, which the program destroys; strings and bytes live as long as they. */
void xir_attrs_destroy(xir_attrs_t attrs);
size_t xir_attrs_get_num_of_keys(xir_attrs_t attrs);

#define XIR_ATTR_SCALARS(each)                                                                \
  each(bool, xir_bool_t) each(i8, int8_t) each(i16, int16_t) each(i32, int32_t)               \
  each(i64, int64_t) each(u8, uint8_t) each(u16, uint16_t) each(u32, uint32_t)                \
  each(u64, uint64_t) each(f32, float) each(f64, double) each(string, xir_string_t)           \
  each(bytes, xir_bytes_t)

enum xir_attr_value_tag_t {
  XIR_ATTR_TYPE_TAG_NONE = 0,
  XIR_ATTR_TYPE_TAG_MAP = 1,
#define XIR_ATTR_TAGS(name, type)                                \
  XIR_ATTR_TYPE_TAG_##name, XIR_ATTR_TYPE_TAG_VEC_##name,        \
      XIR_ATTR_TYPE_TAG_MAP_##name, XIR_ATTR_TYPE_TAG_MAP_VEC_##name,
  XIR_ATTR_SCALARS(XIR_ATTR_TAGS)
#undef XIR_ATTR_TAGS
};

typedef struct xir_attr_value_t {
  enum xir_attr_value_tag_t tag;
  union {
#define XIR_ATTR_MEMBER(name, type) type name##_value;
    XIR_ATTR_SCALARS(XIR_ATTR_MEMBER)
#undef XIR_ATTR_MEMBER
  } u;
} xir_attr_value_t;

/* A value that is one number, string or bytes; of lists, maps and what is not there the tag is
 * XIR_ATTR_TYPE_TAG_NONE. */
xir_attr_value_t xir2_attrs_get(xir_attrs_t attrs, xir_string_t key);

#ifdef __cplusplus
}
#endif
