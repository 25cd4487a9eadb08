/* SPDX-License-Identifier: Apache-2.0 */
/* A program in C: finds the DPU's subgraph, tells of it, runs it on the bytes of a file. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <vart/vart.h>

static xir_string_t key(const char* text) {
  xir_string_t made = {text, strlen(text)};
  return made;
}

static int is_for_dpu(xir_subgraph_t subgraph) {
  if (!xir_subgraph_has_attr(subgraph, "device")) return 0;
  xir_attrs_t attrs = xir_subgraph_get_attrs(subgraph);
  xir_attr_value_t device = xir2_attrs_get(attrs, key("device"));
  int found = device.tag == XIR_ATTR_TYPE_TAG_string && !strcmp(device.u.string_value.data, "DPU");
  xir_attrs_destroy(attrs);
  return found;
}

static void count(void* data, void* object) {
  *(int*)data += object != NULL;
}

static void tell(const char* what, xir_tensor_t tensor) {
  xir_attrs_t attrs = xir_tensor_get_attrs(tensor);
  xir_attr_value_t point = xir2_attrs_get(attrs, key("fix_point"));
  printf("%s %s %d %d", what, xir_tensor_get_name(tensor).data, xir_tensor_get_bit_width(tensor),
         (int)xir_tensor_get_data_type(tensor));
  for (int i = 0; i < xir_tensor_get_dim_num(tensor); ++i)
    printf(" %d", xir_tensor_get_dim_size(tensor, i));
  printf(" = %" PRId64 " %" PRIu64 " point %d %d\n", xir_tensor_get_element_num(tensor),
         xir_tensor_get_data_size(tensor), point.tag == XIR_ATTR_TYPE_TAG_i32, point.u.i32_value);
  xir_attrs_destroy(attrs);
}

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  xir_graph_t graph = xir_graph_deserialize(argv[1]);
  xir_subgraph_t root = xir_graph_get_root_subgraph(graph), dpu = NULL;
  xir_subgraph_t children[16];
  int several = xir_subgraph_get_children_num(root), ops = 0, tensors = 0;
  xir_subgraph_children_topological_sort(root, children);
  for (int i = 0; i < several; ++i)
    if (is_for_dpu(children[i])) dpu = children[i];
  if (!dpu) return 3;
  xir_subgraph_get_ops(dpu, &ops, count);
  xir_subgraph_get_output_tensors(dpu, &tensors, count);
  printf("%s %s %d %d %d %d\n", xir_graph_get_name(graph), xir_subgraph_get_name(dpu).data,
         ops == xir_subgraph_get_op_num(dpu), tensors, xir_subgraph_get_depth(dpu),
         xir_graph_get_op(graph, key("nothing")) == NULL);
  xir_attrs_t attrs = xir_subgraph_get_attrs(dpu);
  printf("%d %d\n", xir2_attrs_get(attrs, key("mc_code")).tag == XIR_ATTR_TYPE_TAG_bytes,
         xir2_attrs_get(attrs, key("reg_id_to_size")).tag == XIR_ATTR_TYPE_TAG_NONE);
  xir_attrs_destroy(attrs);

  vart_runner_t runner = vart_create_runner(dpu, "run");
  xir_graph_destroy(graph); /* runners outlive it */
  vart_tensor_buffer_t inputs[1], outputs[2];
  size_t taken = vart_runner_get_num_of_input_tensors(runner);
  size_t given = vart_runner_get_num_of_output_tensors(runner);
  if (taken != 1 || given != 2) return 4;
  vart_runner_get_inputs(runner, inputs);
  vart_runner_get_outputs(runner, outputs);
  tell("in", vart_tensor_buffer_get_tensor(inputs[0]));
  int32_t first[] = {0, 0, 0, 0};
  vart_tensor_buffer_address_t place = vart_tensor_buffer_data(inputs[0], first, 4);
  FILE* file = fopen(argv[2], "rb");
  if (!file || fread((void*)(uintptr_t)place.addr, 1, place.size, file) != place.size) return 5;
  fclose(file);
  vart_job_id_and_status_t job = vart_runner_execute_async(runner, inputs, taken, outputs, given);
  printf("wait %d\n", vart_runner_wait(runner, (int)job.job_id, -1));
  file = fopen(argv[3], "wb");
  for (size_t i = 0; i < given; ++i) {
    tell("out", vart_tensor_buffer_get_tensor(outputs[i]));
    place = vart_tensor_buffer_data(outputs[i], NULL, 0);
    fwrite((void*)(uintptr_t)place.addr, 1, place.size, file);
  }
  fclose(file);
  vart_destroy_runner(runner);
  return 0;
}
