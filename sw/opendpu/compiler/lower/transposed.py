# SPDX-License-Identifier: Apache-2.0
"""Transposed convolutions: one layer for each phase, which writes every stride-th pixel."""

import dataclasses

import numpy as np

from opendpu.compiler.constraints import before
from opendpu.compiler.fixed import DEPTHWISE
from opendpu.compiler.layers import AluLayer, ConvLayer, Feature, Int8Array, Window
from opendpu.compiler.limits import MAX_CHANNEL_GROUPS
from opendpu.compiler.lower.boxes import add_box, box_of
from opendpu.compiler.lower.context import LoweringContext
from opendpu.compiler.lower.fields import layer_fields, repeated
from opendpu.compiler.lower.interleaved import ColumnPhase, interleaved
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
        if _interleaved(context, node, rows, across):
            continue
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


def _interleaved(context: LoweringContext, node: Node, rows: Phase, across: list[Phase]) -> bool:
    """Add all columns of some rows of a depthwise layer as one layer, if that is faster."""
    step = int(node.attrs["stride"][0])
    if node.kind not in DEPTHWISE or len({phase.count for phase in across}) > 1:
        return False
    if len(across) < max(2, step):
        return False
    source, whole = context.features[node.inputs["input"][0]], context.features[node.name]
    name = f"{node.name}/{rows.start}"
    made = Feature(name=name, height=rows.count, width=across[0].count, channels=whole.channels)
    taps, skipped = _met(rows)
    weights = take(context.constant(node, "weights"), 1, taps)
    layer = interleaved(
        layer_fields(context, node, name), [_column_phase(weights, phase) for phase in across],
        source, made, Window(kernel_h=len(taps), pad_top=rows.pad), context.target,
    )  # fmt: skip
    if layer is None:
        return False
    if skipped:
        inside = dataclasses.replace(box_of(source), rows=range(skipped, source.height))
        layer = dataclasses.replace(
            layer, source=add_box(context, f"{name}/from", source.name, inside)
        )
    _part(context, node, name, rows, across)
    context.add(layer)
    return True


def _met(phase: Phase) -> tuple[tuple[int | None, ...], int]:
    """Return the taps of a phase from the first one that there is, and how many come before."""
    first = next((n for n, tap in enumerate(phase.taps) if tap is not None), 0)
    return phase.taps[first:], first


def _column_phase(weights: Int8Array, phase: Phase) -> ColumnPhase:
    """Return what columns of a phase meet; weights are OHWI with one output."""
    taps, skipped = _met(phase)
    return ColumnPhase(weights=take(weights, 2, taps)[0], pad=phase.pad - skipped)


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
