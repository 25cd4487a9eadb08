// SPDX-License-Identifier: Apache-2.0
// Runners and buffers for programs in C: what throws ends them, with the reason, by std::terminate.
#include <stdexcept>

#include "c_api.hpp"
#include "vart/runner_ext.hpp"
#include "vart/vart.h"
#include "xir/graph/subgraph.hpp"

using opendpu::copy_pointers;
using opendpu::object;
using opendpu::pointer;
using vart::Runner;
using vart::TensorBuffer;

namespace {

std::vector<TensorBuffer*> buffers(vart_tensor_buffer_t given[], std::size_t count) {
  std::vector<TensorBuffer*> made;
  for (std::size_t i = 0; i < count; ++i) made.push_back(object<TensorBuffer>(given[i]));
  return made;
}

vart::RunnerExt& with_buffers(vart_runner_t runner) {
  auto* found = dynamic_cast<vart::RunnerExt*>(object<Runner>(runner));
  if (!found) throw std::invalid_argument("the runner has no buffers of its own");
  return *found;
}

}  // namespace

extern "C" {

vart_runner_t vart_create_runner(xir_subgraph_t subgraph, const char* mode) {
  return Runner::create_runner(object<xir::Subgraph>(subgraph), mode ? mode : "").release();
}

void vart_destroy_runner(vart_runner_t runner) { delete object<Runner>(runner); }

vart_job_id_and_status_t vart_runner_execute_async(vart_runner_t runner,
                                                   vart_tensor_buffer_t inputs[],
                                                   size_t num_of_inputs,
                                                   vart_tensor_buffer_t outputs[],
                                                   size_t num_of_outputs) {
  const auto [job, status] = object<Runner>(runner)->execute_async(
      buffers(inputs, num_of_inputs), buffers(outputs, num_of_outputs));
  return {job, status};
}

int vart_runner_wait(vart_runner_t runner, int jobid, int timeout) {
  return object<Runner>(runner)->wait(jobid, timeout);
}

size_t vart_runner_get_num_of_input_tensors(vart_runner_t runner) {
  return object<Runner>(runner)->get_input_tensors().size();
}
void vart_runner_get_input_tensors(vart_runner_t runner, xir_tensor_t inputs[]) {
  copy_pointers(object<Runner>(runner)->get_input_tensors(), inputs);
}
size_t vart_runner_get_num_of_output_tensors(vart_runner_t runner) {
  return object<Runner>(runner)->get_output_tensors().size();
}
void vart_runner_get_output_tensors(vart_runner_t runner, xir_tensor_t outputs[]) {
  copy_pointers(object<Runner>(runner)->get_output_tensors(), outputs);
}
void vart_runner_get_inputs(vart_runner_t runner, vart_tensor_buffer_t inputs[]) {
  copy_pointers(with_buffers(runner).get_inputs(), inputs);
}
void vart_runner_get_outputs(vart_runner_t runner, vart_tensor_buffer_t outputs[]) {
  copy_pointers(with_buffers(runner).get_outputs(), outputs);
}

xir_tensor_t vart_tensor_buffer_get_tensor(vart_tensor_buffer_t buffer) {
  return pointer(object<TensorBuffer>(buffer)->get_tensor());
}
vart_tensor_buffer_address_t vart_tensor_buffer_data(vart_tensor_buffer_t buffer, int32_t idx[],
                                                     size_t num_of_idx) {
  const auto [address, size] = object<TensorBuffer>(buffer)->data({idx, idx + num_of_idx});
  return {address, size};
}
void vart_destroy_tensor_buffer(vart_tensor_buffer_t buffer) {
  delete object<TensorBuffer>(buffer);
}

}  // extern "C"
