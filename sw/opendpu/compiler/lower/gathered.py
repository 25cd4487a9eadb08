# SPDX-License-Identifier: Apache-2.0
"""Convolutions of the CONV engine; dilated ones in the way that is expected to be fastest.

There are three: zeros between the taps, a layer for each part of the pixels, gathered rows.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from opendpu.compiler.dilation import (
    MAX_KERNEL,
    MAX_PAD_BEFORE,
    Axis,
    is_dilated,
    met_taps,
    parts_of,
    plan,
    ways,
)
from opendpu.compiler.layers import (
    AluLayer,
    ConvLayer,
    DilatedConvLayer,
    Feature,
    Int8Array,
    Window,
)
from opendpu.compiler.lower.context import LoweringContext
from opendpu.compiler.lower.dilated import dilated, part_layer
from opendpu.compiler.lower.window import dilate, window_of
from opendpu.compiler.network import Network
from opendpu.compiler.planner.tiling.conv import conv_tilings
from opendpu.compiler.planner.tiling.dilated import dilated_tilings, is_gatherable
from opendpu.compiler.planner.tiling.misc import misc_tilings
from opendpu.compiler.planner.tiling.problem import Tiling, TilingProblem
from opendpu.ir import Node
from opendpu_arch.isa import AluMode
from opendpu_arch.target import Target

Fields = Mapping[str, Any]
Axes = tuple[Axis, Axis]


def add_conv(context: LoweringContext, node: Node, fields: Fields, weights: Int8Array) -> None:
    """Add a convolution; ``fields`` are those of its layer, ``weights`` OHWI without dilation."""
    zeros = ConvLayer(**fields, window=window_of(node), weights=dilate(weights, node))
    if not is_dilated(node):
        context.add(zeros)
        return
    gathered = _gathered(context, node, fields, weights)
    axes = None
    if zeros.source == node.inputs["input"][0] and zeros.output == node.name:
        axes = plan(node, context.draft[zeros.source], context.target)
    prices = {
        "zeros": _price_of_zeros(context, zeros),
        "parts": _price_of_parts(context, fields, weights, axes, depthwise=False),
        "gathered": _price_of_gathered(context, gathered),
    }
    possible = {way: price for way, price in prices.items() if price is not None}
    best = min(possible, key=lambda way: possible[way], default="zeros")
    if best == "parts":
        assert axes is not None
        dilated(context, fields, weights, *axes)
    elif best == "gathered":
        assert gathered is not None
        context.add(gathered)
    else:
        context.add(zeros)


def add_depthwise(context: LoweringContext, node: Node, fields: Fields, weights: Int8Array) -> None:
    """Add a depthwise convolution; ``weights`` OHWI without dilation.

    A dilated one becomes a layer for each part of the pixels where that is faster.
    """
    zeros = AluLayer(
        **fields, window=window_of(node), mode=AluMode.DWCV, weights=dilate(weights, node)[0]
    )
    source, output = context.features[zeros.source], context.features[zeros.output]
    best: tuple[int, Axes] | None = None
    if is_dilated(node):
        for axes in ways(node, context.draft[zeros.source], context.target):
            price = _price_of_parts(context, fields, weights, axes, depthwise=True)
            if price is not None and (best is None or price < best[0]):
                best = (price, axes)
    if best is not None:
        price = _least(misc_tilings(_problem(zeros, source, output, context.target), zeros))
        held = max(zeros.window.pad_top, zeros.window.pad_left) <= MAX_PAD_BEFORE
        if not held or price is None or best[0] < price:
            dilated(context, fields, weights, *best[1], depthwise=True)
            return
    context.add(zeros)


def _gathered(
    context: LoweringContext, node: Node, fields: Fields, weights: Int8Array
) -> DilatedConvLayer | None:
    """Return the layer whose rows are gathered, without the taps that only meet padding."""
    met = met_taps(node, context.draft[node.inputs["input"][0]])
    if met is None:
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
    return layer if is_gatherable(layer) else None


def _price_of_zeros(context: LoweringContext, layer: ConvLayer) -> int | None:
    if max(layer.window.kernel_h, layer.window.kernel_w) > MAX_KERNEL:
        return None
    source, output = context.features[layer.source], context.features[layer.output]
    return _least(conv_tilings(_problem(layer, source, output, context.target), layer))


def _price_of_parts(
    context: LoweringContext,
    fields: Fields,
    weights: Int8Array,
    axes: Axes | None,
    *,
    depthwise: bool,
) -> int | None:
    """Return the price of all parts, each as that of the first."""
    if axes is None:
        return None
    source, output = context.features[fields["source"]], context.features[fields["output"]]
    down = parts_of(axes[0], source.height, output.height)
    across = parts_of(axes[1], source.width, output.width)
    layer = part_layer(fields, weights, axes, (down[0], across[0]), depthwise=depthwise)
    part_in = Feature(
        name=source.name, height=down[0].inputs, width=across[0].inputs, channels=source.channels
    )
    part_out = Feature(
        name=output.name, height=down[0].outputs, width=across[0].outputs, channels=output.channels
    )
    problem = _problem(layer, part_in, part_out, context.target)
    cuts = (
        misc_tilings(problem, layer)
        if isinstance(layer, AluLayer)
        else conv_tilings(problem, layer)
    )
    least = _least(cuts)
    return None if least is None else least * len(down) * len(across)


def _price_of_gathered(context: LoweringContext, layer: DilatedConvLayer | None) -> int | None:
    if layer is None:
        return None
    source, output = context.features[layer.source], context.features[layer.output]
    return _least(dilated_tilings(_problem(layer, source, output, context.target), layer))


def _problem(
    layer: ConvLayer | AluLayer, source: Feature, output: Feature, target: Target
) -> TilingProblem:
    """Return the problem of a layer alone, from DDR to DDR."""
    network = Network(
        features={source.name: source, output.name: output}, layers=(layer,),
        inputs=(source.name,), outputs=(output.name,),
    )  # fmt: skip
    return TilingProblem(layer=layer, network=network, target=target, whole={})


def _least(cuts: Iterable[Tiling]) -> int | None:
    return min((cut.cycles for cut in cuts), default=None)
