# SPDX-License-Identifier: Apache-2.0
"""A transposed convolution as ordinary ones: all results at one remainder of the stride.

Result ``o`` is ``sum over k of input[(o + k - (kernel - 1 - before)) / stride] * weight[k]``, where
that division leaves no rest (weights are rotated by half a turn). So results ``start + q * stride``
only meet every ``stride``-th weight, and are a convolution of the input with step one.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np

from opendpu.compiler.layers import Int8Array


@dataclasses.dataclass(frozen=True, kw_only=True)
class Phase:
    """Results ``start``, ``start + stride`` ... along one axis."""

    start: int
    count: int
    taps: tuple[int | None, ...]
    """The weights in the order of the inputs that they meet; none is zero."""
    pad: int
    """Inputs before the first one that the first result meets."""


def phases(kernel: int, stride: int, before: int, outputs: int) -> list[Phase]:
    """Return the phases of ``outputs`` results; ``before`` is the padding, less than the kernel."""
    found = []
    for start in range(min(stride, outputs)):
        lead = kernel - 1 - before - start
        pad, first = lead // stride, lead % stride
        taps: list[int | None] = [None] * max(0, -pad)
        taps += range(first, kernel, stride)
        if first >= kernel:
            taps, pad = [None], 0
        found.append(
            Phase(
                start=start, count=-(-(outputs - start) // stride), taps=tuple(taps),
                pad=max(0, pad),
            )
        )  # fmt: skip
    return found


def take(weights: Int8Array, axis: int, taps: Sequence[int | None]) -> Int8Array:
    """Return the weights of a phase along an axis, zeros where it has none."""
    parts = [
        np.zeros_like(weights.take([0], axis)) if tap is None else weights.take([tap], axis)
        for tap in taps
    ]
    return np.concatenate(parts, axis)
