/* SPDX-License-Identifier: Apache-2.0 */
/* VART's objects as C sees them. */
#pragma once

typedef void* vart_tensor_buffer_t;
typedef void* vart_runner_t;
