/* SPDX-License-Identifier: Apache-2.0 */
/* Custom ops: a shared library libvart_op_imp_<type>.so computes the ops of one type. */
#pragma once

#include <stddef.h>

#include "vart/vart.h"
#include "xir/cxir.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The buffers of one argument. */
typedef struct {
  const char* arg_name;
  size_t num_of_args;
  vart_tensor_buffer_t* args;
} vart_op_imp_input_t;

/* What a library's vart_init_op_imp returns. */
typedef struct vart_op_imp_t {
  void* (*init)(const xir_op_t op, xir_attrs_t attrs);
  void (*cleanup)(void* self);
  /* Arguments are in the order of the op type's definition. Not 0: failed. */
  int (*calculate)(void* self, vart_op_imp_input_t inputs[], size_t num_of_inputs,
                   vart_tensor_buffer_t output);
} vart_op_imp_t;

#ifdef __cplusplus
}

#include "vart/op_imp_cpp.hpp"

/* Makes a library of a class: see vart/op_imp_cpp.hpp. */
#define DEF_XIR_OP_IMP(KLASS)                                  \
  extern "C" vart_op_imp_t vart_init_op_imp(const xir_op_t) { \
    return vart::experimental::make_vart_opt_imp<KLASS>();    \
  }
#endif
