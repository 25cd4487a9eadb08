# SPDX-License-Identifier: Apache-2.0
"""Convolutions with a dilation beyond an instruction's kernel: a layer for each part of pixels."""

import numpy as np

from opendpu.compiler.dilation import Axis, Part, parts_of
from opendpu.compiler.layers import ConvLayer, Feature, Int8Array, Window
from opendpu.compiler.lower.context import LoweringContext
from opendpu.compiler.lower.fields import layer_fields
from opendpu.compiler.network import Alias
from opendpu.ir import Node


def dilated(context: LoweringContext, node: Node, rows: Axis, columns: Axis) -> None:
    """Add the layers of all parts; the result is one map that they fill together."""
    source, whole = context.features[node.inputs["input"][0]], context.features[node.name]
    weights = _weights(context.constant(node, "weights"), rows, columns)
    for down in parts_of(rows, source.height, whole.height):
        for across in parts_of(columns, source.width, whole.width):
            fields = layer_fields(context, node, node.name)
            if rows.parts > 1 or columns.parts > 1:
                name = f"{node.name}/{down.start}_{across.start}"
                steps = (rows.parts, columns.parts)
                made = _part(
                    context, source, f"{name}/input", _inputs(down), _inputs(across), steps
                )
                _part(context, whole, name, _outputs(down), _outputs(across), steps)
                fields |= {"name": name, "source": made, "output": name}
            window = Window(
                kernel_h=rows.extent, kernel_w=columns.extent, stride_h=rows.stride,
                stride_w=columns.stride, pad_top=down.pad, pad_left=across.pad,
            )  # fmt: skip
            context.add(ConvLayer(**fields, window=window, weights=weights))


def _weights(weights: Int8Array, rows: Axis, columns: Axis) -> Int8Array:
    """Return the weights that meet inputs, with the zeros that are left between them."""
    outputs, _, _, inputs = weights.shape
    used = weights[
        :, rows.first : rows.first + rows.taps, columns.first : columns.first + columns.taps
    ]
    made = np.zeros((outputs, rows.extent, columns.extent, inputs), dtype=np.int8)
    made[:, :: rows.gap, :: columns.gap] = used
    return made


def _inputs(part: Part) -> tuple[int, int]:
    return part.offset, part.inputs


def _outputs(part: Part) -> tuple[int, int]:
    return part.start, part.outputs


def _part(
    context: LoweringContext,
    whole: Feature,
    name: str,
    rows: tuple[int, int],
    columns: tuple[int, int],
    steps: tuple[int, int],
) -> str:
    """Add some pixels of a feature map, (first, count) each way; return their name."""
    row_bytes = whole.width * whole.channels
    context.features[name] = Feature(
        name=name, height=rows[1], width=columns[1], channels=whole.channels
    )
    alias = Alias(
        holder=whole.name, offset=rows[0] * row_bytes + columns[0] * whole.channels,
        pixel_bytes=steps[1] * whole.channels, row_bytes=steps[0] * row_bytes,
    )  # fmt: skip
    if not context.alias(name, alias):
        copy = context.copy(whole.name, f"{name}/copy")
        context.alias(name, Alias(**{**vars(alias), "holder": copy}))
    return name
