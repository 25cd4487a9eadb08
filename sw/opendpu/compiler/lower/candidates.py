# SPDX-License-Identifier: Apache-2.0
"""Layers that compute the same convolution, of which the one with the least cost is taken.

A dilated kernel has three candidates: zeros between the taps, a layer for each part of the pixels,
gathered rows. Those of a depthwise one are on the misc engine, but for the last, on the array.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from opendpu.compiler.dilation import (
    Axis,
    is_dilated,
    met_taps,
    pads_with_zeros,
    part_candidates,
    parts_of,
    plan,
)
from opendpu.compiler.fixed import DEPTHWISE
from opendpu.compiler.layers import (
    AluLayer,
    ConvLayer,
    DilatedConvLayer,
    Int8Array,
    Layer,
    Window,
    diagonal_weights,
)
from opendpu.compiler.limits import MAX_ALU_KERNEL, MAX_CONV_KERNEL, MAX_PAD_BEFORE
from opendpu.compiler.lower.context import LoweringContext
from opendpu.compiler.lower.dilated import add_parts, part_layer
from opendpu.compiler.lower.window import dilate, window_of
from opendpu.ir import Node
from opendpu_arch.isa import AluMode

Fields = Mapping[str, Any]
Axes = tuple[Axis, Axis]
LANES_PRICE = 1.25
"""Price of the array for a depthwise kernel, whose lanes are mostly empty: what each part costs is
reckoned alone, though parts overlap."""


@dataclasses.dataclass(frozen=True)
class _Candidate:
    """Cycles, and the layer or else the parts of the pixels that need them."""

    cycles: int
    layer: Layer | None = None
    axes: Axes | None = None


def add_conv(context: LoweringContext, node: Node, fields: Fields, weights: Int8Array) -> None:
    """Add a convolution; ``fields`` are those of its layer, ``weights`` OHWI without dilation."""
    if not is_dilated(node):
        context.add(_with_zeros(node, fields, weights))
        return
    candidates, window = [], window_of(node)
    if max(window.kernel_h, window.kernel_w) <= MAX_CONV_KERNEL:
        candidates += _whole(context, _with_zeros(node, fields, weights))
    if fields["source"] == node.inputs["input"][0] and fields["output"] == node.name:
        axes = plan(node, context.graph[fields["source"]], context.target)
        candidates += [] if axes is None else _parts(context, fields, weights, axes)
    gathered = _gathered(context, node, fields, weights)
    candidates += [] if gathered is None else _whole(context, gathered)
    _add_cheapest(context, node, candidates, fields, weights)


def add_depthwise(context: LoweringContext, node: Node, fields: Fields, weights: Int8Array) -> None:
    """Add a depthwise convolution; ``weights`` OHWI without dilation."""
    if not is_dilated(node):
        context.add(_with_zeros(node, fields, weights))
        return
    candidates, window = [], window_of(node)
    kernel, pad = max(window.kernel_h, window.kernel_w), max(window.pad_top, window.pad_left)
    if kernel <= MAX_ALU_KERNEL and pad <= MAX_PAD_BEFORE:
        candidates += _whole(context, _with_zeros(node, fields, weights))
    for axes in part_candidates(node, context.graph[fields["source"]], context.target):
        candidates += _parts(context, fields, weights, axes, depthwise=True)
    diagonal = diagonal_weights(weights[0], context.target.channel_parallel)
    gathered = _gathered(context, node, {**fields, "depthwise": True}, diagonal)
    for one in [] if gathered is None else _whole(context, gathered):
        candidates.append(dataclasses.replace(one, cycles=round(one.cycles * LANES_PRICE)))
    _add_cheapest(context, node, candidates, fields, weights)


def _with_zeros(node: Node, fields: Fields, weights: Int8Array) -> ConvLayer | AluLayer:
    """Return the layer for all pixels, with zeros between the taps; they may be many."""
    window, made = window_of(node), dilate(weights, node)
    if node.kind in DEPTHWISE:
        return AluLayer(**fields, window=window, mode=AluMode.DWCV, weights=made[0])
    return ConvLayer(**fields, window=window, weights=made)


def _add_cheapest(
    context: LoweringContext, node: Node, candidates: Sequence[_Candidate], fields: Fields,
    weights: Int8Array,
) -> None:  # fmt: skip
    """Add the cheapest candidate; if none fits, the planner says why."""
    best = min(candidates, key=lambda one: one.cycles, default=None)
    if best is not None and best.axes is not None:
        depthwise = node.kind in DEPTHWISE
        add_parts(context, fields, weights, *best.axes, depthwise=depthwise)
        return
    made = None if best is None else best.layer
    context.add(made or _with_zeros(node, fields, weights))


def _gathered(
    context: LoweringContext, node: Node, fields: Fields, weights: Int8Array
) -> DilatedConvLayer | None:
    """Return the layer whose rows are gathered, without the taps that only meet padding."""
    source = context.graph[node.inputs["input"][0]]
    met = met_taps(node, source)
    if met is None or not pads_with_zeros(node, source):
        return None
    rows, columns = met
    (gap_w, gap_h), whole = (int(gap) for gap in node.attrs["dilation"]), window_of(node)
    layer = DilatedConvLayer(
        **fields, dilation_h=gap_h, dilation_w=gap_w,
        window=Window(
            kernel_h=len(rows), kernel_w=len(columns), stride_h=whole.stride_h,
            stride_w=whole.stride_w, pad_top=whole.pad_top - rows.start * gap_h,
            pad_left=whole.pad_left - columns.start * gap_w,
        ),
        weights=weights[:, rows.start : rows.stop, columns.start : columns.stop],
    )  # fmt: skip
    return layer if layer.fits_fields else None


def _whole(context: LoweringContext, layer: Layer) -> list[_Candidate]:
    """Return a layer for all pixels, if it fits."""
    cycles = context.cost(layer, context.features, context.target)
    return [] if cycles is None else [_Candidate(cycles, layer)]


def _parts(
    context: LoweringContext, fields: Fields, weights: Int8Array, axes: Axes,
    *, depthwise: bool = False,
) -> list[_Candidate]:  # fmt: skip
    """Return the layers of all parts, if they fit; each costs what the first does."""
    source, output = context.features[fields["source"]], context.features[fields["output"]]
    down = parts_of(axes[0], source.height, output.height)
    across = parts_of(axes[1], source.width, output.width)
    layer = part_layer(fields, weights, axes, (down[0], across[0]), depthwise=depthwise)
    features = {
        source.name: dataclasses.replace(source, height=down[0].inputs, width=across[0].inputs),
        output.name: dataclasses.replace(output, height=down[0].outputs, width=across[0].outputs),
    }
    cycles = context.cost(layer, features, context.target)
    return [] if cycles is None else [_Candidate(cycles * len(down) * len(across), axes=axes)]
