# SPDX-License-Identifier: Apache-2.0
"""Axes of large feature maps in another order: blocks of bytes change places in DDR.

The innermost axes that stay where they are, are a block. Where the last axis moves, a block is a
part of it: a convolution of one pixel brings the parts of another axis beside each other, before
or behind. What is left of that are blocks of a byte, which SAVE writes one by one.
"""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from opendpu.compiler.layers.cost import BEAT_BYTES, PORTS
from opendpu.compiler.legalize.permute import permuted
from opendpu.compiler.legalize.refusal import Refusal
from opendpu.compiler.legalize.registry import Call
from opendpu_arch.target import Target

MAX_PERMUTED = 1024
"""Channels that a convolution of one pixel puts in another order: a megabyte of weights."""
MAX_COPIES = 256
"""Copies of rows of pixels that put these in another order."""
MAX_CYCLES = 1 << 18
"""Expected cycles of a transpose whose last axis moves; with more, the CPU is sooner."""
BURST_CYCLES = 4
"""Cycles of SAVE for a block."""
JUDGED = Target.from_name("B4096")
"""A legalized graph is for every target: cycles are those of the largest array."""
LANES, LOADED = JUDGED.macs_per_cycle, PORTS * BEAT_BYTES
"""Products of its array, and bytes of weights that LOAD brings, a cycle."""


class _Exchange(NamedTuple):
    """How the last axis moves.

    Parameters
    ----------
    cycles
        What it takes.
    axis
        The axis that is cut, counted in the order of the input.
    part
        How many of its elements are beside each other in a block.
    inner
        Elements of what changes places with a part inside a convolution's pixel.
    before
        Whether that is done before blocks change places.
    """

    cycles: float
    axis: int
    part: int
    inner: int
    before: bool


def exchanged(call: Call, source: str, sizes: Sequence[int], order: Sequence[int]) -> str:
    """Return a feature map with its axes in another order.

    Parameters
    ----------
    call
        The op.
    source
        Node with the elements; shapes do not count.
    sizes, order
        Sizes of its axes, none of them 1, and the axis that each one of the result is.

    Raises
    ------
    Refusal
        It takes too many copies, or too long.
    """
    if order[-1] == len(sizes) - 1:
        return _pixels(call, source, sizes, order)
    best = min(_exchanges(sizes, order), default=None)
    if best is None or best.cycles > MAX_CYCLES:
        raise Refusal(
            f'DPU only supports "order"({list(call.node.attrs["order"])}) of transpose that leaves '
            f"the last axis where it is, moves elements of blocks of at most {MAX_PERMUTED}, or "
            f"takes at most {MAX_CYCLES} cycles, but here "
            + (f"it takes {best.cycles:.0f}" if best else "elements are in too many rows")
            + "; a model in NHWC would lift it",
            "XCOM_UNEXPECTED_VALUE",
        )
    return _by_blocks(call, source, sizes, order, best)


def is_sooner(sizes: Sequence[int], order: Sequence[int], block: int) -> bool:
    """Tell whether that is far sooner than one convolution of pixels of ``block`` elements."""
    if order[-1] == len(sizes) - 1:
        return False
    best = min(_exchanges(sizes, order), default=None)
    return best is not None and 2 * best.cycles < _cycles_inside(math.prod(sizes), block)


def _cycles_inside(elements: int, block: int) -> float:
    """Return the expected cycles of a convolution that moves elements inside of blocks."""
    return elements * block / LANES + block**2 / LOADED


def _exchanges(sizes: Sequence[int], order: Sequence[int]) -> Iterator[_Exchange]:
    """Yield the ways to cut one of both axes that are last, before or behind."""
    last = len(sizes) - 1
    behind = order[order.index(last) + 1 :]
    ways = (
        (order[-1], math.prod(sizes[order[-1] + 1 :]), True),
        (last, math.prod(sizes[axis] for axis in behind), False),
    )
    elements = math.prod(sizes)
    for axis, inner, before in ways:
        for part in (n for n in range(1, sizes[axis] + 1) if sizes[axis] % n == 0):
            block = part * inner
            if part > 1 and block > MAX_PERMUTED:
                break
            cycles = BURST_CYCLES * elements / part
            if part > 1:
                cycles += _cycles_inside(elements, block)
            cut = [*sizes[:axis], sizes[axis] // part, *sizes[axis + 1 :], part]
            if _shape_of_pixels(cut, [*order, len(sizes)]) is not None:
                yield _Exchange(cycles, axis, part, inner, before)


def _by_blocks(
    call: Call, source: str, sizes: Sequence[int], order: Sequence[int], way: _Exchange
) -> str:
    cut = [*sizes[: way.axis], sizes[way.axis] // way.part, *sizes[way.axis + 1 :], way.part]
    whole = [*order, len(sizes)]
    if way.part == 1:
        return _pixels(call, source, cut, whole)
    if way.before:
        source = _permuted(call, source, (way.part, way.inner))
        return _pixels(call, source, cut, whole)
    return _permuted(call, _pixels(call, source, cut, whole), (way.inner, way.part))


def _permuted(call: Call, source: str, sizes: tuple[int, int]) -> str:
    """Return a map with two axes exchanged in every block of its elements."""
    block = math.prod(sizes)
    count = math.prod(call.context.result[source].shape) // block
    numbers = np.arange(block).reshape(sizes).T
    pixels = call.context.view(source, (1, 1, count, block))
    return permuted(call, pixels, numbers.ravel().tolist())


def _pixels(call: Call, source: str, sizes: Sequence[int], order: Sequence[int]) -> str:
    """Return blocks of the innermost axes, which stay there, in another order."""
    found = _shape_of_pixels(sizes, order)
    if found is None:
        raise Refusal(
            f'DPU only supports "order"({list(call.node.attrs["order"])}) of transpose in at most '
            f"{MAX_COPIES} copies of rows of pixels, but here it takes more; fewer axes would "
            "lift it",
            "XCOM_UNEXPECTED_VALUE",
        )
    shape, axes = found
    if axes == sorted(axes):
        return source
    return call.context.add(
        call.node, call.fix, "transpose", {"input": [call.context.view(source, shape)]},
        {"order": axes}, shape=tuple(shape[axis] for axis in axes),
    )  # fmt: skip


def _shape_of_pixels(
    sizes: Sequence[int], order: Sequence[int]
) -> tuple[tuple[int, ...], list[int]] | None:
    """Return the axes that move, with those that stay together as one, and their order.

    A batch is in front of them. None where that takes too many copies.
    """
    kept = sorted(axis for axis in order if sizes[axis] > 1 or axis == order[-1])
    groups: list[list[int]] = []
    for place in (kept.index(axis) for axis in order if axis in kept):
        if groups and groups[-1][-1] == place - 1:
            groups[-1].append(place)
        else:
            groups.append([place])
    ranked = sorted(groups)
    shape = (1, *(math.prod(sizes[kept[place]] for place in group) for group in ranked))
    if math.prod(sorted(shape[:-1])[:-2]) > MAX_COPIES:
        return None
    return shape, [0, *(1 + ranked.index(group) for group in groups)]
