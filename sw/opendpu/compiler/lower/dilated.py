# SPDX-License-Identifier: Apache-2.0
"""Dilated convolutions as a layer for each part of the pixels."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from opendpu.compiler.dilation import Axis, Part, parts_of
from opendpu.compiler.layers import AluLayer, ConvLayer, Feature, Int8Array, Window
from opendpu.compiler.lower.context import LoweringContext
from opendpu.compiler.network import Alias
from opendpu_arch.isa import AluMode


def add_parts(
    context: LoweringContext, fields: Mapping[str, Any], weights: Int8Array, rows: Axis,
    columns: Axis, *, depthwise: bool = False,
) -> None:  # fmt: skip
    """Add the layers of all parts; the result is one map that they fill together.

    ``fields`` are those of a layer that makes the whole result, ``weights`` OHWI without dilation.
    """
    source, whole = context.features[fields["source"]], context.features[fields["output"]]
    for down in parts_of(rows, source.height, whole.height):
        for across in parts_of(columns, source.width, whole.width):
            part = (down, across)
            layer = part_layer(fields, weights, (rows, columns), part, depthwise=depthwise)
            if rows.parts > 1 or columns.parts > 1:
                name = f"{whole.name}/{down.start}_{across.start}"
                steps = (rows.parts, columns.parts)
                made = _part(
                    context, source, f"{name}/input", _inputs(down), _inputs(across), steps
                )
                _part(context, whole, name, _outputs(down), _outputs(across), steps)
                layer = dataclasses.replace(layer, name=name, source=made, output=name)
            context.add(layer)


def part_layer(
    fields: Mapping[str, Any], weights: Int8Array, axes: tuple[Axis, Axis],
    part: tuple[Part, Part], *, depthwise: bool = False,
) -> ConvLayer | AluLayer:  # fmt: skip
    """Return the layer of a part, with the names of the whole."""
    rows, columns = axes
    window = Window(
        kernel_h=rows.extent, kernel_w=columns.extent, stride_h=rows.stride,
        stride_w=columns.stride, pad_top=part[0].pad, pad_left=part[1].pad,
    )  # fmt: skip
    made = _weights(weights, rows, columns)
    if depthwise:
        return AluLayer(**fields, window=window, mode=AluMode.DWCV, weights=made[0])
    return ConvLayer(**fields, window=window, weights=made)


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
