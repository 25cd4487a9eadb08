# SPDX-License-Identifier: Apache-2.0
"""A constant matrix times a feature map, along its rows or its columns."""

import numpy as np

from opendpu.frontend.context import Array, Call
from opendpu.frontend.layout import CHANNELS_LAST
from opendpu.ops.banded import span_of

ROWS, COLUMNS = 1, 2
"""Axes of a feature map, NHWC."""
MOST_NEIGHBOURS = 16
"""Elements that a result is made of at most where the DPU is to do it."""


def map_axis(call: Call, constant: int) -> int | None:
    """Return the axis of an NHWC map along which MatMul multiplies it with a constant matrix.

    None where the matrix is none of a few neighbours, or the other operand is no such map.

    Parameters
    ----------
    call
        A MatMul.
    constant
        Which operand is the constant one: rows with 0, columns with 1.
    """
    matrix = call.constant(constant)
    if matrix is None or matrix.ndim != 2 or call.is_quantized(constant):
        return None
    value = call.value(1 - constant)
    perm = CHANNELS_LAST.get(len(value.shape))
    if perm is None or value.perm != perm or value.flat is not None or min(value.shape[1:]) < 2:
        return None
    if constant == 0 and len(perm) == 3:  # of sequences, channels are rows
        return None
    if value.shape[-1 - (constant == 0)] != matrix.shape[1 - constant]:
        return None
    shares = matrix if constant == 0 else matrix.T
    if max(span_of(row) for row in shares) > MOST_NEIGHBOURS:
        return None
    return ROWS if constant == 0 else COLUMNS


def multiplied(call: Call, name: str, node: str, axis: int, matrix: Array) -> str:
    """Emit a product of ``matrix``, [made, given], with a map NHWC along an axis; return it."""
    context = call.context
    batch, height, width, channels = context.graph[node].shape
    constant = context.const(f"{name}_matrix", np.ascontiguousarray(matrix, np.float32))
    attrs = {"transpose_a": False, "transpose_b": False}
    if axis == COLUMNS:
        shape = (batch, height, len(matrix), channels)
        return context.emit(name, "matmul", shape, {"input": [constant, node]}, attrs)
    lines = context.view(node, (batch, height, width * channels))
    flat = (batch, len(matrix), width * channels)
    made = context.emit(name, "matmul", flat, {"input": [constant, lines]}, attrs)
    return context.view(made, (batch, len(matrix), width, channels))
