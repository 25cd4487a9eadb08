# SPDX-License-Identifier: Apache-2.0
"""Axes in another order, by copies: patches to tokens, windows, heads in front of tokens.

What stays together of the innermost axes is a pixel. LOAD and SAVE step through one axis, and a
layer that copies through another one; each index of the rest is a layer of its own.
"""

import dataclasses
import itertools
import math
from collections.abc import Sequence

from opendpu.compiler.layers import Feature, MoveLayer
from opendpu.compiler.layers.cost import transfer_cycles
from opendpu.compiler.limits import MAX_PIXEL_JUMP, MAX_PIXELS
from opendpu.compiler.lower.context import LoweringContext
from opendpu.compiler.network import Alias
from opendpu.compiler.network.strides import dense
from opendpu.ir import Node
from opendpu_arch.target import Target


@dataclasses.dataclass(frozen=True)
class Axis:
    """An axis of a result: its size, and bytes from index to index, there and in the source."""

    size: int
    source: int
    result: int


@dataclasses.dataclass(frozen=True)
class Walk:
    """How a tensor becomes one with its axes in another order, the last one staying the last."""

    axes: tuple[Axis, ...]
    """In order of the result, without the pixel."""
    channels: int
    """Bytes of a pixel."""

    @classmethod
    def of(cls, shape: Sequence[int], order: Sequence[int]) -> "Walk":
        """Return the fewest axes for a transpose of a tensor of bytes."""
        sources = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
        results = [math.prod(shape[a] for a in order[n + 1 :]) for n in range(len(order))]
        merged: list[Axis] = []
        for axis, result in zip(order, results, strict=True):
            if shape[axis] == 1 and axis != order[-1]:
                continue
            found = Axis(shape[axis], sources[axis], result)
            if merged and merged[-1].source == found.size * found.source:
                found = dataclasses.replace(found, size=found.size * merged.pop().size)
            merged.append(found)
        return cls(tuple(merged[:-1]), merged[-1].size)

    def loops(self, target: Target) -> tuple[Axis, Axis, list[Axis]]:
        """Return the axes of rows and of pixels that take the fewest cycles, and the rest."""
        one = Axis(1, 0, 0)
        pixels = min(self.axes, key=lambda axis: self._cycles(axis, target), default=one)
        rest = [axis for axis in self.axes if axis != pixels]
        rows = max(rest, key=lambda axis: axis.size, default=one)
        return rows, pixels, [axis for axis in rest if axis != rows]

    def _cycles(self, pixels: Axis, target: Target) -> float:
        """Return the cycles a byte of LOAD and SAVE that step through an axis."""
        far = max(pixels.source, pixels.result) > MAX_PIXEL_JUMP
        length = 1 if far else min(pixels.size, MAX_PIXELS)
        return sum(
            transfer_cycles(length, self.channels, jump, target.channel_parallel)
            for jump in (pixels.source, pixels.result)
        ) / (length * self.channels)


def walk(context: LoweringContext, node: Node, found: Walk) -> None:
    """Add the layers that copy the input of a transpose."""
    (source,) = node.inputs["input"]
    if context.strides(source) != dense(context.features[source]):
        source = context.copy(source, f"{node.name}/copy")
    rows, pixels, rest = found.loops(context.target)
    for number, index in enumerate(itertools.product(*(range(axis.size) for axis in rest))):
        steps = list(zip(index, rest, strict=True))
        made = []
        for name, holder, offset, pixel_bytes, row_bytes in (
            ("from", source, sum(n * a.source for n, a in steps), pixels.source, rows.source),
            ("to", node.name, sum(n * a.result for n, a in steps), pixels.result, rows.result),
        ):
            part = f"{node.name}/{number}/{name}"
            context.features[part] = Feature(
                name=part, height=rows.size, width=pixels.size, channels=found.channels
            )
            alias = Alias(
                holder=holder, offset=offset, pixel_bytes=pixel_bytes, row_bytes=row_bytes
            )
            assert context.alias(part, alias)  # both have no gaps
            made.append(part)
        context.add(
            MoveLayer(name=f"{node.name}/{number}", source=made[0], output=made[1])
        )  # fmt: skip
