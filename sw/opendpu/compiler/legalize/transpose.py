# SPDX-License-Identifier: Apache-2.0
"""Axes in another order."""

import math

import numpy as np

from opendpu.compiler.legalize.exchange import MAX_PERMUTED, exchanged, is_sooner
from opendpu.compiler.legalize.permute import folds, permuted
from opendpu.compiler.legalize.registry import Call, legalizes


@legalizes("transpose")
def transpose(call: Call) -> str:
    """Make a reshape, an exchange of rows and columns, or another order of channels or of pixels.

    The first where only axes of size 1 move. Axes in which a pixel's channels were split, and all
    axes of a small feature map, count as channels; for larger ones see
    :mod:`opendpu.compiler.legalize.exchange`.
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
    ranked = sorted(moving)
    sizes, places = [shape[axis] for axis in ranked], [ranked.index(axis) for axis in moving]
    pixels = ""
    if block <= MAX_PERMUTED and kept > 0:
        pixels = call.context.view(call.sources[0], _blocks(call, block))
    if pixels and (folds(call, pixels) or not is_sooner(sizes, places, block)):
        source = call.context.copy(pixels, call.node, call.fix)
        inside = [0, *(a - kept + 1 for a in order[kept:])]
        numbers = np.arange(block).reshape(1, *shape[kept:]).transpose(inside)
        made = permuted(call, source, numbers.ravel().tolist())
    else:
        source = call.context.copy(call.sources[0], call.node, call.fix)
        made = exchanged(call, source, sizes, places)
    return call.context.view(made, call.node.shape, call.fix.name)


def _blocks(call: Call, block: int) -> tuple[int, ...]:
    """Return the NHWC shape of the input with ``block`` channels: that before it was reshaped."""
    root = call.context.result[call.sources[0]]
    while root.kind == "reshape-fix" and (len(root.shape) != 4 or root.shape[-1] != block):
        root = call.context.result[root.inputs["input"][0]]
    if len(root.shape) == 4 and root.shape[-1] == block:
        return root.shape
    return (1, 1, math.prod(call.shape()) // block, block)
