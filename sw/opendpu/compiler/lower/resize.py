# SPDX-License-Identifier: Apache-2.0
"""Enlarged feature maps: repeated pixels, or one depthwise convolution a phase."""

import dataclasses
from typing import Any

import numpy as np

from opendpu.compiler.fixed import point_of
from opendpu.compiler.layers import AluLayer, Feature, MoveLayer, Window
from opendpu.compiler.lower.boxes import Box, add_box, place_in
from opendpu.compiler.lower.context import LoweringContext
from opendpu.compiler.lower.pad import mirror
from opendpu.compiler.lower.registry import lowers
from opendpu.compiler.lower.scaled import bilinear_channels, requantization
from opendpu.ir import Node
from opendpu.ops.bilinear import Phase, weights_of
from opendpu.ops.fixed.requantize import is_scaled
from opendpu_arch.isa import AluMode
from opendpu_arch.scaled import Rounding


@lowers("upsample-fix")
def upsample(context: LoweringContext, node: Node) -> None:
    """Add the layers of a resize to whole multiples."""
    scale_w, scale_h = (round(s) for s in node.attrs["scale"])
    (source,) = node.inputs["input"]
    if node.attrs["mode"] == "NEAREST":
        context.add(
            MoveLayer(
                name=node.name, source=source, output=node.name, repeat_h=scale_h, repeat_w=scale_w
            )
        )
        return
    made = weights_of(node.attrs)
    assert made is not None
    point, phases = made
    before = 1 if node.attrs["half_pixel_centers"] else 0
    padded = _bordered(context, node, source, before)
    how = _requantizes(context, node, point)
    for number, phase in enumerate(phases):
        _add_phase(context, node, padded, phase, number, before, how, (scale_h, scale_w))


def _requantizes(context: LoweringContext, node: Node, point: int) -> dict[str, Any]:
    """Return what becomes of sums whose weights have some fractional bits.

    Those of scales of their own have zero points in them, as the weights add up to one, but where
    the result has another scale.
    """
    (source,) = node.inputs["input"]
    if is_scaled(node):
        how = requantization(context, node)
        zero = how.zero if node.attrs["multiplier"] else 0
        given = context.graph[source].quantization.zero_point[0]
        return {
            "bias": bilinear_channels(node, point, given), "shift_cut": 0,
            "requantization": dataclasses.replace(
                how, zero=zero, padding=0, rounding=Rounding.ONCE
            ),
        }  # fmt: skip
    channels = node.shape[-1]
    cut = point_of(context.graph[source]) + point - point_of(node)
    return {"bias": np.zeros(channels, np.int8), "shift_cut": cut}


def _bordered(context: LoweringContext, node: Node, source: str, before: int) -> str:
    """Add the input with its outer pixels doubled: ``before`` ones above and left, one after."""
    feature, name = context.features[source], f"{node.name}/bordered"
    context.features[name] = Feature(
        name=name, height=feature.height + before + 1, width=feature.width + before + 1,
        channels=feature.channels,
    )  # fmt: skip
    inside = Box(
        rows=range(before, before + feature.height),
        columns=range(before, before + feature.width), channels=range(feature.channels),
    )  # fmt: skip
    place_in(context, source, f"{name}/inside", name, inside)
    mirror(context, name, inside, edge=0)
    return name


def _add_phase(
    context: LoweringContext,
    node: Node,
    padded: str,
    phase: Phase,
    number: int,
    before: int,
    how: dict[str, Any],
    scale: tuple[int, int],
) -> None:
    """Add the layer of the pixels at one place of every block."""
    name, result = f"{node.name}/{number}", context.features[node.name]
    rows, columns = result.height // scale[0], result.width // scale[1]
    kernel_h, kernel_w = phase.weights.shape
    down, across = before + phase.down, before + phase.across
    channels = range(result.channels)
    source = add_box(context, f"{name}/from", padded, Box(
        rows=range(down, down + rows + kernel_h - 1),
        columns=range(across, across + columns + kernel_w - 1), channels=channels,
    ))  # fmt: skip
    output = add_box(context, f"{name}/to", node.name, Box(
        rows=range(phase.row, result.height, scale[0]),
        columns=range(phase.column, result.width, scale[1]), channels=channels,
    ))  # fmt: skip
    weights = np.repeat(phase.weights[..., None], result.channels, axis=2)
    context.add(
        AluLayer(
            name=name, source=source, output=output, mode=AluMode.DWCV, weights=weights,
            window=Window(kernel_h=kernel_h, kernel_w=kernel_w), **how,
        )
    )  # fmt: skip
