# SPDX-License-Identifier: Apache-2.0
"""Transposed convolutions: one layer for each phase, which writes every stride-th pixel."""

import numpy as np

from opendpu.compiler.constraints import before
from opendpu.compiler.fixed import DEPTHWISE
from opendpu.compiler.layers import AluLayer, ConvLayer, Feature, Window
from opendpu.compiler.limits import MAX_CHANNEL_GROUPS
from opendpu.compiler.lower.context import LoweringContext
from opendpu.compiler.lower.fields import layer_fields, repeated
from opendpu.compiler.lower.registry import lowers
from opendpu.compiler.network import Alias
from opendpu.compiler.phases import Phase, phases, take
from opendpu.ir import Node
from opendpu_arch.isa import AluMode
from opendpu_arch.target import Target


@lowers("transposed-conv2d-fix", "transposed-depthwise-conv2d-fix")
def transposed(context: LoweringContext, node: Node) -> None:
    """Add the layers of all phases; the result is one map that they fill together."""
    top, left = before(node)
    (width, height), (step_w, step_h) = node.attrs["kernel"], node.attrs["stride"]
    whole = context.features[node.name]
    across = phases(int(width), int(step_w), left, whole.width)
    for rows in phases(int(height), int(step_h), top, whole.height):
        for columns in _together(node, across, whole, context.target):
            name = node.name
            if (step_w, step_h) != (1, 1):
                name = f"{node.name}/{rows.start}_{columns[0].start}"
                _part(context, node, name, rows, columns)
            _layer(context, node, name, rows, columns)


def _together(node: Node, across: list[Phase], whole: Feature, target: Target) -> list[list[Phase]]:
    """Return the phases of columns that are computed at once, as further output channels.

    That is possible where all meet the same inputs; their pixels then follow each other.
    """
    alike = {(len(phase.taps), phase.pad, phase.count) for phase in across}
    channels = len(across) * whole.channels
    fits = channels <= MAX_CHANNEL_GROUPS * target.channel_parallel
    if node.kind in DEPTHWISE or len(alike) > 1 or not fits:
        return [[phase] for phase in across]
    if len(across) < int(node.attrs["stride"][0]):
        return [[phase] for phase in across]
    return [across]


def _part(
    context: LoweringContext, node: Node, name: str, rows: Phase, columns: list[Phase]
) -> None:
    """Add the feature map of some phases: pixels of the result."""
    whole, (step_w, step_h) = context.features[node.name], node.attrs["stride"]
    row_bytes = whole.width * whole.channels
    context.features[name] = Feature(
        name=name, height=rows.count, width=columns[0].count,
        channels=len(columns) * whole.channels,
    )  # fmt: skip
    context.alias(
        name,
        Alias(
            holder=node.name, offset=rows.start * row_bytes + columns[0].start * whole.channels,
            pixel_bytes=int(step_w) * whole.channels, row_bytes=int(step_h) * row_bytes,
        ),
    )  # fmt: skip


def _layer(
    context: LoweringContext, node: Node, name: str, rows: Phase, columns: list[Phase]
) -> None:
    """Add the layer of some phases."""
    fields = layer_fields(context, node, name)
    weights = take(context.constant(node, "weights"), 1, rows.taps)
    weights = np.concatenate([take(weights, 2, phase.taps) for phase in columns])
    fields["window"] = Window(
        kernel_h=len(rows.taps), kernel_w=len(columns[0].taps),
        pad_top=rows.pad, pad_left=columns[0].pad,
    )  # fmt: skip
    if node.kind in DEPTHWISE:
        context.add(AluLayer(**fields, mode=AluMode.DWCV, weights=weights[0]))
        return
    context.add(ConvLayer(**repeated(fields, len(columns)), weights=weights))
