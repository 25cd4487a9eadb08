# SPDX-License-Identifier: Apache-2.0
"""Axes in another order."""

import math

import numpy as np

from opendpu.compiler.legalize.permute import permuted
from opendpu.compiler.legalize.refusal import Refusal
from opendpu.compiler.legalize.registry import Call, legalizes

MAX_PERMUTED = 1024
"""Channels that a convolution of one pixel puts in another order: a megabyte of weights."""
MAX_COPIES = 256
"""Copies of rows of pixels that put these in another order."""


@legalizes("transpose")
def transpose(call: Call) -> str:
    """Make a reshape, an exchange of rows and columns, or another order of channels or of pixels.

    The first where only axes of size 1 move. Axes in which a pixel's channels were split, and all
    axes of a small feature map, count as channels. In a larger one, blocks of the innermost axes
    that stay where they are count as pixels.
    """
    order, shape = [int(a) for a in call.node.attrs["order"]], call.shape()
    moving = [a for a in order if shape[a] > 1]
    if moving == sorted(moving):
        source = call.context.copy(call.sources[0], call.node, call.fix)
        return call.context.view(source, call.node.shape, call.fix.name)
    if order == [0, 2, 1, 3]:
        source = call.context.copy(call.sources[0], call.node, call.fix)
        return call.context.add(
            call.node, call.fix, "transpose", {"input": [source]}, {"order": order}
        )
    kept = next(n for n, a in enumerate(order) if n != a)
    block = math.prod(shape[kept:])
    if block > MAX_PERMUTED and moving[-1] == max(moving):
        ranked = sorted(moving)
        sizes = [shape[axis] for axis in ranked]
        return _pixels(call, sizes, [ranked.index(axis) for axis in moving])
    if kept == 0 or block > MAX_PERMUTED:
        raise Refusal(
            f'DPU only supports "order"({order}) of transpose that leaves the last axis where it '
            f"is, or moves elements of blocks of at most {MAX_PERMUTED}, but here they are of "
            f"{block}; a model in NHWC would lift it",
            "XCOM_UNEXPECTED_VALUE",
        )
    source = call.context.view(call.sources[0], _blocks(call, block))
    source = call.context.copy(source, call.node, call.fix)
    inside = [0, *(a - kept + 1 for a in order[kept:])]
    places = np.arange(block).reshape(1, *shape[kept:]).transpose(inside)
    made = permuted(call, source, places.ravel().tolist())
    return call.context.view(made, call.node.shape, call.fix.name)


def _pixels(call: Call, sizes: list[int], order: list[int]) -> str:
    """Return blocks of the innermost axes in another order; no axis has the size 1."""
    groups: list[list[int]] = []
    for axis in order:
        if groups and groups[-1][-1] == axis - 1:
            groups[-1].append(axis)
        else:
            groups.append([axis])
    ranked = sorted(groups)
    shape = (1, *(math.prod(sizes[axis] for axis in group) for group in ranked))
    copies = math.prod(sorted(shape[:-1])[:-2])
    if copies > MAX_COPIES:
        raise Refusal(
            f'DPU only supports "order"({list(call.node.attrs["order"])}) of transpose in at most '
            f"{MAX_COPIES} copies of rows of pixels, but here it takes {copies}; fewer axes would "
            "lift it",
            "XCOM_UNEXPECTED_VALUE",
        )
    fewer = [0, *(1 + ranked.index(group) for group in groups)]
    source = call.context.copy(call.sources[0], call.node, call.fix)
    made = call.context.add(
        call.node, call.fix, "transpose", {"input": [call.context.view(source, shape)]},
        {"order": fewer}, shape=tuple(shape[axis] for axis in fewer),
    )  # fmt: skip
    return call.context.view(made, call.node.shape, call.fix.name)


def _blocks(call: Call, block: int) -> tuple[int, ...]:
    """Return the NHWC shape of the input with ``block`` channels: that before it was reshaped."""
    root = call.context.result[call.sources[0]]
    while root.kind == "reshape-fix" and (len(root.shape) != 4 or root.shape[-1] != block):
        root = call.context.result[root.inputs["input"][0]]
    if len(root.shape) == 4 and root.shape[-1] == block:
        return root.shape
    return (1, 1, math.prod(call.shape()) // block, block)
