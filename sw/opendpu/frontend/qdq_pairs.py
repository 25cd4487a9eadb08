# SPDX-License-Identifier: Apache-2.0
"""Pairs of QuantizeLinear and DequantizeLinear in the nodes of a model, and what they round to."""

import dataclasses
import math
from collections.abc import Mapping, Sequence

import numpy as np
import onnx

from opendpu.frontend.float8 import is_float8, largest, rounded
from opendpu.frontend.model_file import constants_of_nodes
from opendpu.frontend.narrow_pairs import in_bytes
from opendpu.ir import Array, Quantization, Rounding
from opendpu.ops.formats import integers_of, real_numbers
from opendpu.ops.quantizing import DEQUANTIZE, LARGEST, NNDCT, QUANTIZE

BITS = 8


@dataclasses.dataclass(frozen=True)
class Pair:
    """What rounds a tensor, or is stored rounded.

    Parameters
    ----------
    source
        The tensor that is rounded, or is stored in integers.
    quantization
        How; integers have a sign, those without one are moved.
    limits
        The least and the largest integer that are left, in the same numbers.
    stored
        The real numbers that are left, where they are known.
    """

    source: str
    quantization: Quantization
    limits: tuple[int, int]
    stored: Array | None = None

    @property
    def range(self) -> tuple[float, float]:
        """The least and the largest real number."""
        scale, zero = max(self.quantization.scale), self.quantization.zero_point[0]
        low, high = self.limits
        return (low - zero) * scale, (high - zero) * scale

    @property
    def is_dpus(self) -> bool:
        """Whether the DPU computes with it: 8 bits, one power of two, zero stands for zero.

        It saturates at the ends of 8 bits: fewer would take a minimum and a maximum. Biases of 32
        bits get 8 anyway.
        """
        if self.stored is not None and self.quantization.bits > BITS:
            return True
        own = self.quantization.is_power_of_two and self.quantization.bits == BITS
        return own and (self.stored is not None or self.limits == self.quantization.limits)

    @property
    def fix_point(self) -> int:
        """Fractional bits at which 8 bits hold the range."""
        if self.is_dpus:
            return self.quantization.fix_point
        return math.floor(math.log2((LARGEST + 0.5) / max(map(abs, self.range))))


class Pairs:
    """Finds pairs.

    Parameters
    ----------
    nodes
        Those of a model.
    constants
        Its weights.
    """

    def __init__(self, nodes: Sequence[onnx.NodeProto], constants: Mapping[str, Array]) -> None:
        self.known = {**constants, **constants_of_nodes(nodes)}
        """All constants, those of nodes too."""
        self._producers = {name: node for node in nodes for name in node.output}

    def at(self, node: onnx.NodeProto) -> Pair | None:
        """Return what a node is the end of; nothing where that, or its scale, is not known."""
        if node.op_type not in DEQUANTIZE or node.domain == NNDCT or len(node.input) < 2:
            return None
        before, clip = node.input[0], self._producers.get(node.input[0])
        bounds: tuple[int, int] | None = None
        if clip is not None and clip.op_type == "Clip" and before not in self.known:
            given = [self.known.get(name) for name in clip.input[1:]]
            if len(given) != 2 or any(one is None or one.size != 1 for one in given):
                return None
            low, high = (int(np.ravel(one)[0]) for one in given if one is not None)
            before, bounds = clip.input[0], (low, high)
        quantize = self._producers.get(before)
        if before in self.known:
            source, real = before, False
        elif quantize is not None and _quantizes(quantize):
            source, real = quantize.input[0], True
        else:
            return None
        return self._pair(node, source, bounds, real=real)

    def _pair(
        self, node: onnx.NodeProto, source: str, bounds: tuple[int, int] | None, *, real: bool
    ) -> Pair | None:
        values = self.known.get(source)
        if values is not None and not real:
            values = in_bytes(values)
        kind = self._float8(node, None if real else values)
        if kind is not None:
            return self._float_pair(node, source, kind, real=real) if bounds is None else None
        scale, zero = self._numbers(node, values.dtype if values is not None and not real else None)
        if scale is None or zero is None:
            return None
        bits = BITS * zero.dtype.itemsize
        moved = 1 << (bits - 1) if zero.dtype.kind == "u" else 0
        axis = _axis(node, scale, values)
        if axis is None and scale.size > 1:
            return None
        zeros = tuple(int(one) - moved for one in zero.ravel())
        grid = Quantization(
            tuple(float(one) for one in scale.ravel()), zeros if any(zeros) else (0,), axis, bits,
            rounding=Rounding.PY3_ROUND,
        )  # fmt: skip
        low, high = grid.limits
        if bounds is not None:
            low, high = max(low, bounds[0] - moved), min(high, bounds[1] - moved)
        if values is None:
            return Pair(source, grid, (low, high))
        integers = integers_of(values, grid) if real else values.astype(np.int64) - moved
        return Pair(source, grid, (low, high), real_numbers(np.clip(integers, low, high), grid))

    def _float8(self, node: onnx.NodeProto, stored: Array | None) -> np.dtype[np.generic] | None:
        """Return the format of eight bits in which a pair holds real numbers, if it does."""
        zero = self.known.get(node.input[2]) if len(node.input) > 2 else None
        for array in (stored, zero):
            if array is not None and is_float8(array.dtype):
                return array.dtype
        return None

    def _float_pair(
        self, node: onnx.NodeProto, source: str, kind: np.dtype[np.generic], *, real: bool
    ) -> Pair | None:
        """Return the range of floating-point numbers of eight bits as one of integers."""
        values, scale = self.known.get(source), self.known.get(node.input[1])
        if scale is None or scale.ndim > 1 or not scale.size or not np.isfinite(scale).all():
            return None
        axis = _axis(node, scale, values)
        if (scale <= 0).any() or (axis is None and scale.size > 1):
            return None
        steps = tuple(float(one) * largest(kind) / LARGEST for one in scale.ravel())
        grid = Quantization(steps, (0,), axis, BITS, rounding=Rounding.PY3_ROUND)
        if values is None:
            return Pair(source, grid, (-LARGEST, LARGEST))
        along = [1] * values.ndim
        if axis is not None:
            along[axis] = scale.size
        spread = scale.astype(np.float32).reshape(along)
        made = rounded(values, spread, kind) if real else values.astype(np.float32) * spread
        return Pair(source, grid, (-LARGEST, LARGEST), made)

    def _numbers(
        self, node: onnx.NodeProto, stored: np.dtype[np.generic] | None
    ) -> tuple[Array | None, Array | None]:
        """Return scales and zero points; nothing where they are not integers and known."""
        scale = self.known.get(node.input[1])
        if scale is None or scale.ndim > 1 or not scale.size:
            return None, None
        if not np.isfinite(scale).all() or (scale <= 0).any():
            return None, None
        if len(node.input) < 3 or not node.input[2]:
            zero = np.zeros(scale.shape, np.uint8 if stored is None else stored)
        elif node.input[2] in self.known:
            zero = in_bytes(self.known[node.input[2]])
        else:
            return None, None
        integer = zero.dtype.kind in "iu" and zero.size in (1, scale.size)
        return scale, zero if integer else None


def _quantizes(node: onnx.NodeProto) -> bool:
    return node.op_type in QUANTIZE and node.domain != NNDCT and len(node.input) > 1


def _axis(node: onnx.NodeProto, scale: Array, values: Array | None) -> int | None:
    """Return the axis that scales are along; nothing for one scale, or where they do not fit."""
    if scale.size == 1:
        return None
    given = [int(item.i) for item in node.attribute if item.name == "axis"]
    axis = given[0] if given else 1
    if values is None:
        return axis
    axis = axis if values.ndim > 1 else 0
    if not -values.ndim <= axis < values.ndim or values.shape[axis] != scale.size:
        return None
    return axis % values.ndim
