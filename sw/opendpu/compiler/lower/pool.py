# SPDX-License-Identifier: Apache-2.0
"""Pooling: layers of the misc engine."""

import dataclasses

from opendpu.compiler.fixed import point_of
from opendpu.compiler.layers import AluLayer, Window
from opendpu.compiler.limits import ADDRESS_GROUPS
from opendpu.compiler.lower.context import LoweringContext
from opendpu.compiler.lower.registry import lowers
from opendpu.compiler.lower.scaled import average_channels, requantization
from opendpu.compiler.lower.window import window_of
from opendpu.ir import Node
from opendpu.ops.average import average_factor
from opendpu.ops.fixed.requantize import is_scaled
from opendpu_arch.isa import AluMode
from opendpu_arch.scaled import Rounding
from opendpu_arch.target import Target


@lowers("pool-fix")
def pool(context: LoweringContext, node: Node) -> None:
    """Add a layer that takes the maximum or the average of every window; two for large maxima."""
    source = node.inputs["input"][0]
    window, made = window_of(node), context.features[node.name]
    if made.height == 1:  # rows may then lie in any banks, several of which are read at a time
        window = dataclasses.replace(window, stride_h=1)
    if is_scaled(node) and node.attrs["type"] == "AVG":
        _average(context, node, window)
        return
    right = 0 if is_scaled(node) else point_of(context.graph[source]) - point_of(node)
    mode, factor = AluMode.MAXPOOL, 0
    if node.attrs["type"] == "AVG":
        mode = AluMode.AVEPOOL
        factor, shift = average_factor(kernel_h=window.kernel_h, kernel_w=window.kernel_w)
        right += shift
    windows = [window]
    if mode == AluMode.MAXPOOL and not _fits(window, context.target):
        windows = [
            Window(
                kernel_w=window.kernel_w, stride_w=window.stride_w, pad_left=window.pad_left
            ),
            Window(
                kernel_h=window.kernel_h, stride_h=window.stride_h, pad_top=window.pad_top
            ),
        ]  # fmt: skip
        name = f"{node.name}/columns"
        wide = context.features[source]
        context.features[name] = dataclasses.replace(wide, name=name, width=made.width)
        context.add(AluLayer(name=name, source=source, output=name, window=windows[0], mode=mode))
        source = name
    context.add(
        AluLayer(
            name=node.name, source=source, output=node.name, window=windows[-1], mode=mode,
            multi_factor=factor, shift_cut=8 + right if right >= 0 else -right,
        )
    )  # fmt: skip


def _average(context: LoweringContext, node: Node, window: Window) -> None:
    """Add a layer whose sums are multiplied; without a multiplier, zero points are in them."""
    (source,) = node.inputs["input"]
    zero = context.graph[source].quantization.zero_point[0]
    made = requantization(context, node)
    if not node.attrs["multiplier"]:
        made = dataclasses.replace(made, zero=0, rounding=Rounding.ONCE)
    made = dataclasses.replace(made, padding=0)
    context.add(
        AluLayer(
            name=node.name, source=source, output=node.name, window=window, mode=AluMode.AVEPOOL,
            multi_factor=1, bias=average_channels(node, zero), requantization=made,
        )
    )  # fmt: skip


def _fits(window: Window, target: Target) -> bool:
    """Tell whether a window is in four address groups of equal size.

    A maximum that is not can be taken along the columns first, to the bit; an average would be
    rounded twice.
    """
    rows = ADDRESS_GROUPS * -(-window.kernel_h // (ADDRESS_GROUPS * target.pixel_parallel))
    return rows * window.kernel_w <= target.bank_depth
