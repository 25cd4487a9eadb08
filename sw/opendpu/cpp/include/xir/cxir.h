/* SPDX-License-Identifier: Apache-2.0 */
/* XIR's objects as C sees them. */
#pragma once

typedef void* xir_graph_t;
typedef void* xir_subgraph_t;
typedef void* xir_op_t;
typedef void* xir_tensor_t;
typedef void* xir_attrs_t;
