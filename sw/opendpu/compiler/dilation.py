# SPDX-License-Identifier: Apache-2.0
"""Dilated kernels that are larger than an instruction's, as smaller ones on parts of the pixels.

Results ``o = parts * q + start`` of a convolution with step one only meet inputs at one remainder
of ``parts``, if that divides the dilation. On those pixels alone the dilation is
``dilation / parts``; what is left of it becomes zeros between the weights. Weights that meet
nothing but padding are left out first.
"""

import dataclasses
import itertools

from opendpu.compiler.fixed import DEPTHWISE
from opendpu.compiler.layers.cost import conv_cycles, transfer_cycles
from opendpu.compiler.limits import MAX_CONV_KERNEL, MAX_PIXEL_JUMP
from opendpu.ir import Node
from opendpu.ops.fixed.requantize import is_scaled
from opendpu_arch.target import Target


@dataclasses.dataclass(frozen=True)
class Axis:
    """A dilated kernel along one axis, for each of ``parts`` parts of the pixels."""

    first: int
    """The first weight that meets an input."""
    taps: int
    gap: int
    """Distance of weights in a part."""
    parts: int
    stride: int
    pad: int
    """Padding before the first weight, in the whole feature map."""

    @property
    def extent(self) -> int:
        """Inputs of a part from the first weight to the last."""
        return (self.taps - 1) * self.gap + 1


@dataclasses.dataclass(frozen=True)
class Part:
    """Results ``start``, ``start + parts`` ... and inputs ``offset``, ``offset + parts`` ...."""

    start: int
    outputs: int
    offset: int
    inputs: int
    pad: int


def parts_of(axis: Axis, size: int, outputs: int) -> list[Part]:
    """Return the parts of an axis of ``size`` inputs and ``outputs`` results."""
    found = []
    for start in range(min(axis.parts, outputs)):
        turns, offset = divmod(start - axis.pad, axis.parts)
        found.append(
            Part(
                start=start, outputs=-(-(outputs - start) // axis.parts), offset=offset,
                inputs=-(-(size - offset) // axis.parts), pad=-turns,
            )
        )  # fmt: skip
    return found


def is_dilated(node: Node) -> bool:
    """Tell whether the taps of a convolution are apart."""
    return max(int(gap) for gap in node.attrs.get("dilation") or (1, 1)) > 1


def fits_dilated(node: Node, source: Node, target: Target) -> bool:
    """Tell whether a dilated convolution can be computed without all zeros between its taps."""
    if not is_dilated(node):
        return False
    if node.kind in DEPTHWISE:
        return bool(part_candidates(node, source, target))
    group = int(node.attrs.get("group") or 1)
    met = met_taps(node, source)
    if met is not None and pads_with_zeros(node, source):
        height, width = (len(taps) for taps in met)
        words = height * width * -(-source.shape[3] // group // target.channel_parallel)
        if max(height, width) <= MAX_CONV_KERNEL and words <= target.bank_depth:
            return True
    return group == 1 and plan(node, source, target) is not None


def pads_with_zeros(node: Node, source: Node) -> bool:
    """Tell whether taps that meet padding add nothing to the sums of products."""
    if not is_scaled(node) or not any(node.attrs["pad"]):
        return True
    return not source.quantization.zero_point[0]


def met_taps(node: Node, source: Node) -> tuple[range, range] | None:
    """Return the kernel rows and columns from the first that meets an input to the last."""
    (gap_w, gap_h), (step_w, step_h) = node.attrs["dilation"], node.attrs["stride"]
    (kernel_w, kernel_h), (left, _, top, _) = node.attrs["kernel"], node.attrs["pad"]
    rows = _met(int(kernel_h), int(step_h), int(gap_h), int(top), source.shape[1], node.shape[1])
    columns = _met(
        int(kernel_w), int(step_w), int(gap_w), int(left), source.shape[2], node.shape[2]
    )
    return (rows, columns) if rows and columns else None


def plan(node: Node, source: Node, target: Target) -> tuple[Axis, Axis] | None:
    """Return rows and columns of the cheapest candidate that fits, or none if there is none."""
    channels, outputs = source.shape[3], node.shape[3]
    groups = -(-channels // target.channel_parallel)
    blocks = -(-outputs // target.output_channel_parallel)

    def cost(candidate: tuple[Axis, Axis]) -> int:
        down, across = candidate
        taps = down.extent * across.extent
        tall, wide = -(-node.shape[1] // down.parts), -(-node.shape[2] // across.parts)
        steps = -(-tall // target.pixel_parallel) * blocks
        size = taps * channels
        load = outputs * transfer_cycles(1, size, size, target.channel_parallel)
        compute = steps * conv_cycles(wide, taps * groups)
        return down.parts * across.parts * max(compute, load)

    return min(part_candidates(node, source, target), key=cost, default=None)


def part_candidates(node: Node, source: Node, target: Target) -> list[tuple[Axis, Axis]]:
    """Return rows and columns of all partitions of the pixels whose kernels fit."""
    _, height, width, channels = source.shape
    (kernel_w, kernel_h), (gap_w, gap_h) = node.attrs["kernel"], node.attrs["dilation"]
    (step_w, step_h), (left, _, top, _) = node.attrs["stride"], node.attrs["pad"]
    rows = _along(int(kernel_h), int(step_h), int(gap_h), int(top), height, node.shape[1])
    columns = _along(int(kernel_w), int(step_w), int(gap_w), int(left), width, node.shape[2])
    groups = 1 if node.kind in DEPTHWISE else -(-channels // target.channel_parallel)
    return [
        (down, across)
        for down, across in itertools.product(rows, columns)
        if down.extent * across.extent * groups <= target.bank_depth
        and across.parts * max(channels, node.shape[3]) <= MAX_PIXEL_JUMP
    ]


def _met(kernel: int, stride: int, gap: int, pad: int, size: int, outputs: int) -> range:
    met = [
        tap
        for tap in range(kernel)
        if any(0 <= o * stride + tap * gap - pad < size for o in range(outputs))
    ]
    return range(met[0], met[-1] + 1) if met else range(0)


def _along(kernel: int, stride: int, gap: int, pad: int, size: int, outputs: int) -> list[Axis]:
    """Return the candidates along one axis."""
    met = _met(kernel, stride, gap, pad, size, outputs)
    if not met:
        return []
    # Every window starts or ends inside, as the engine wants it.
    first = min(met[0], pad // gap, (size - 1 - (outputs - 1) * stride + pad) // gap)
    last = max(met[-1], -(-pad // gap))
    taps, pad = last - first + 1, pad - first * gap
    if taps == 1:
        return [Axis(first, 1, 1, 1, stride, 0)]
    found = []
    for left in range(1, gap + 1):
        parts = gap // left
        axis = Axis(first, taps, left, parts, stride, pad)
        if gap % left or axis.extent > MAX_CONV_KERNEL:
            continue
        if parts == 1 or (stride == 1 and parts <= size):
            found.append(axis)
    return found
