# SPDX-License-Identifier: Apache-2.0
"""A constant matrix times a feature map, along its rows or its columns: depthwise convolutions.

``y[o] = sum(matrix[o, i] * x[i])``, where ``i`` and ``o`` are rows of feature maps, or columns. If
each result is made of a few neighbours, as in interpolation, it is a convolution with a kernel as
high (or as wide) as these are many. Results whose numbers repeat, every so many of them, are one
convolution with a stride.
"""

import numpy as np

from opendpu.compiler.legalize.context import Context
from opendpu.compiler.legalize.refusal import Refusal
from opendpu.compiler.legalize.registry import Call
from opendpu.compiler.limits import MAX_ALU_KERNEL
from opendpu.ir import Array, Node
from opendpu.ops.banded import Block, Run, blocks_of, span_of

MAP = 4
ROWS, COLUMNS = 1, 2
"""Axes of a feature map."""
MAX_CHANNELS = 1024
"""Of a row that is no feature map, as many are looked at as channels of a pixel."""


def along_axis(call: Call) -> str:
    """Make depthwise convolutions side by side of a matrix, the first input, and a map."""
    context = call.context
    matrix, source = (context.result[name] for name in call.sources)
    assert matrix.value is not None
    axis, four = COLUMNS, source.shape
    if len(four) < MAP:
        axis, four = ROWS, _lines(context, source)
    _check(matrix.value)
    blocks = blocks_of(matrix.value, MAX_ALU_KERNEL)
    source_name = context.view(source.name, four)
    made = [_block(call, source_name, axis, block, matrix.fix_point) for block in blocks]
    size = list(four)
    size[axis] = matrix.shape[0]
    whole = made[0]
    if len(made) > 1:
        whole = context.add(
            call.node, call.fix, "concat-fix", {"input": made}, {"axis": axis}, shape=tuple(size)
        )
    return context.view(whole, call.node.shape)


def _lines(context: Context, source: Node) -> tuple[int, ...]:
    """Return the feature map whose rows are those of a matrix."""
    root = source
    while root.kind == "reshape-fix":
        root = context.result[root.inputs["input"][0]]
        if len(root.shape) == MAP and root.shape[:2] == source.shape[:2]:
            return root.shape
    _, rows, length = source.shape
    channels = next(n for n in range(min(length, MAX_CHANNELS), 0, -1) if length % n == 0)
    return (1, rows, length // channels, channels)


def _check(matrix: Array) -> None:
    """Raise Refusal if a result is made of more neighbours than a kernel has taps."""
    most = max(span_of(row) for row in matrix)
    if most > MAX_ALU_KERNEL:
        raise Refusal(
            f"DPU only supports a constant matrix times a feature map where a result is made of up "
            f"to {MAX_ALU_KERNEL} neighbours, but here of {most}; the other order of the factors "
            "would lift it",
            "XCOM_UNEXPECTED_VALUE",
        )


def _block(call: Call, source: str, axis: int, block: Block, point: int) -> str:
    """Make the convolutions of a block; return its results in their order."""
    made = [_run(call, source, axis, run, point) for run in block.runs]
    if len(made) == 1:
        return made[0]
    context = call.context
    shape = list(context.result[made[0]].shape)
    beside = list(shape)
    beside[axis + 1] *= len(made)
    shape[axis] *= len(made)
    joined = context.add(
        call.node, call.fix, "concat-fix", {"input": made}, {"axis": axis + 1},
        shape=tuple(beside), tensor=context.result.unique(f"{call.fix.name}_turns"),
    )  # fmt: skip
    return context.view(joined, tuple(shape))


def _run(call: Call, source: str, axis: int, run: Run, point: int) -> str:
    """Make a convolution of the part of the map that its results read."""
    context, taps = call.context, len(run.numbers)
    shape = list(context.result[source].shape)
    begin, end = [0] * MAP, list(shape)
    begin[axis], end[axis] = run.first, run.first + (run.count - 1) * run.step + taps
    shape[axis] = end[axis] - begin[axis]
    part = context.result[source]
    if shape[axis] < part.shape[axis]:
        name = context.result.unique(f"{call.node.name}_part")
        part = context.result.add(
            name, "strided_slice-fix", part.type.with_shape(tuple(shape)), {"input": [source]},
            {"begin": begin, "end": end, "strides": [1] * MAP}, origin=call.node.origin,
            tensor=name,
        )  # fmt: skip
    kernel, stride = [1, 1], [1, 1]
    kernel[COLUMNS - axis], stride[COLUMNS - axis] = taps, run.step if run.count > 1 else 1
    numbers = np.asarray(run.numbers).reshape(1, kernel[1], kernel[0], 1)
    weights = context.constant(
        f"{call.node.name}_weights", numbers.repeat(shape[-1], axis=-1), point
    )
    shape[axis] = run.count
    attrs = {
        "kernel": kernel, "stride": stride, "dilation": [1, 1], "pad": [0, 0, 0, 0],
        "nonlinear": call.nonlinear, "pad_mode": "FLOOR",
    }  # fmt: skip
    inputs = {"input": [part.name], "weights": [weights]}
    return context.add(
        call.node, call.fix, "depthwise-conv2d-fix", inputs, attrs, shape=tuple(shape),
        tensor=context.result.unique(f"{call.fix.name}_run"),
    )  # fmt: skip
