/* SPDX-License-Identifier: Apache-2.0 */
/* VART for programs in C. What goes wrong ends the process with the reason, as there are no exceptions;
 * only vart_runner_wait tells by its result that a job failed. */
#pragma once

#include <xir/cxir.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef void* vart_tensor_buffer_t;
typedef void* vart_runner_t;

typedef struct {
  uint32_t job_id;
  int status; /* 0 */
} vart_job_id_and_status_t;

typedef struct {
  uint64_t addr;
  size_t size; /* bytes from there to the end of the buffer */
} vart_tensor_buffer_address_t;

/* A runner for a compiled subgraph in a mode of vart::Runner; it may outlive its graph. */
vart_runner_t vart_create_runner(xir_subgraph_t subgraph, const char* mode);
void vart_destroy_runner(vart_runner_t runner);

vart_job_id_and_status_t vart_runner_execute_async(vart_runner_t runner,
                                                   vart_tensor_buffer_t inputs[],
                                                   size_t num_of_inputs,
                                                   vart_tensor_buffer_t outputs[],
                                                   size_t num_of_outputs);
/* As vart::Runner::wait: milliseconds, no limit if not positive; not 0 where the job failed. */
int vart_runner_wait(vart_runner_t runner, int jobid, int timeout);

/* Arrays have room for as many. */
size_t vart_runner_get_num_of_input_tensors(vart_runner_t runner);
void vart_runner_get_input_tensors(vart_runner_t runner, xir_tensor_t inputs[]);
size_t vart_runner_get_num_of_output_tensors(vart_runner_t runner);
void vart_runner_get_output_tensors(vart_runner_t runner, xir_tensor_t outputs[]);
/* Buffers that belong to the runner, always the same ones. */
void vart_runner_get_inputs(vart_runner_t runner, vart_tensor_buffer_t inputs[]);
void vart_runner_get_outputs(vart_runner_t runner, vart_tensor_buffer_t outputs[]);

xir_tensor_t vart_tensor_buffer_get_tensor(vart_tensor_buffer_t buffer);
vart_tensor_buffer_address_t vart_tensor_buffer_data(vart_tensor_buffer_t buffer, int32_t idx[],
                                                     size_t num_of_idx);
/* For buffers that a program in C++ has handed over. */
void vart_destroy_tensor_buffer(vart_tensor_buffer_t buffer);

#ifdef __cplusplus
}
#endif
