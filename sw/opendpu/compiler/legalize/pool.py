# SPDX-License-Identifier: Apache-2.0
"""Pooling."""

import dataclasses
from typing import Any

from opendpu.compiler.legalize.average import excluding_padding
from opendpu.compiler.legalize.registry import Call, legalizes
from opendpu.compiler.legalize.window import unpadded
from opendpu.ir import Node, TensorType
from opendpu.ops.window import explicit_pad

MAX_KERNEL = 256
"""Rows and columns of a window of one instruction."""
MAX_WORDS = 2048
LEAST_BANKS = 4
"""A window of which so many words are in each of so few banks fits every target."""
LOWEST = -128


@legalizes("maxpool2d", "avgpool2d")
def pool(call: Call) -> str:
    """Make ``pool-fix``; the engine's average counts the padding, so others are made in parts."""
    node, shape = call.node, call.shape()
    kernel, stride = list(node.attrs["kernel"]), list(node.attrs["stride"])
    pad = explicit_pad(node, shape)
    if node.attrs.get("global"):
        kernel = stride = [shape[2], shape[1]]
        pad = [0, 0, 0, 0]
    average = node.kind == "avgpool2d"
    if average and any(pad) and not node.attrs.get("count_include_pad", True):
        return excluding_padding(call, kernel, stride, pad)
    if not average or node.attrs.get("count_include_pad", True):
        fill = 0 if average else LOWEST
        source, pad = unpadded(call.context, call.sources[0], pad, kernel, fill)
        call = dataclasses.replace(call, sources=[source])
    attrs = {"kernel": kernel, "stride": stride, "pad": pad, "type": "AVG" if average else "MAX"}
    return add_pool(call, attrs, node.shape)


def add_pool(call: Call, attrs: dict[str, Any], shape: tuple[int, ...]) -> str:
    """Add ``pool-fix`` ops of the input: more than one where a maximum has a large window."""
    attrs = {**attrs, "pad_mode": "FLOOR"}
    (width, height), stages = attrs["kernel"], [attrs]
    if attrs["type"] == "MAX" and (
        max(width, height) > MAX_KERNEL or -(-height // LEAST_BANKS) * width > MAX_WORDS
    ):
        stages = [s for axis in (1, 0) for s in _split(attrs, axis, shape)] or stages
    context, (source,) = call.context, call.sources[:1]
    for number, stage in enumerate(stages[:-1]):
        size = _shape_of(stage, context.result[source].shape)
        part = Node(f"{call.node.name}_part{number}", "", TensorType(size), origin=call.node.origin)
        fixed = context.result[source].type.with_shape(size)
        fix = Node(f"{call.fix.name}_part{number}", "fix", fixed)
        source = context.add(part, fix, "pool-fix", {"input": [source]}, stage)
    inputs = {"input": [source]}
    return context.add(call.node, call.fix, "pool-fix", inputs, stages[-1], shape=shape)


def _split(attrs: dict[str, Any], axis: int, shape: tuple[int, ...]) -> list[dict[str, Any]]:
    """Return windows along one axis (0: columns) whose maxima together are those of the large one.

    Parts of a window start a stride apart, so that they are parts of its neighbours too; where
    there is one window only, they are as few as possible.
    """
    kernel, stride = attrs["kernel"][axis], attrs["stride"][axis]
    before, after = attrs["pad"][2 * axis : 2 * axis + 2]
    stages = [(kernel, stride, before, after)]
    if kernel > MAX_KERNEL:
        alone = shape[2 - axis] == 1
        for parts in range(2, MAX_KERNEL + 1):
            step = -(-(kernel - MAX_KERNEL) // (parts - 1)) if alone else stride
            part = kernel - (parts - 1) * step
            if max(step, before + 1, after + 1) <= part <= MAX_KERNEL:
                stages = [(part, step, before, after), (parts, 1, 0, 0)]
                break
    made = [_along(axis, *stage, attrs) for stage in stages]
    return [m for m in made if m["kernel"] != [1, 1] or m["stride"] != [1, 1]]


def _along(
    axis: int, kernel: int, stride: int, before: int, after: int, attrs: dict[str, Any]
) -> dict[str, Any]:
    """Return a window of one row or column."""
    made = {**attrs, "kernel": [1, 1], "stride": [1, 1], "pad": [0, 0, 0, 0]}
    made["kernel"][axis], made["stride"][axis] = kernel, stride
    made["pad"][2 * axis : 2 * axis + 2] = [before, after]
    return made


def _shape_of(attrs: dict[str, Any], shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the NHWC shape of what a window makes."""
    (width, height), (across, down) = attrs["kernel"], attrs["stride"]
    left, right, top, bottom = attrs["pad"]
    rows = (shape[1] + top + bottom - height) // down + 1
    columns = (shape[2] + left + right - width) // across + 1
    return (shape[0], rows, columns, shape[3])
