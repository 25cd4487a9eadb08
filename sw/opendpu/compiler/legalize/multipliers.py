# SPDX-License-Identifier: Apache-2.0
"""Fixed-point multipliers of the extension ``scaled``, computed from scales as LiteRT does.

A factor is ``multiplier * 2**(shift - 31)``. Which products and quotients of scales are float32 and
which float64 decides the last bit, so each is what LiteRT's kernel of that operator has.
"""

import dataclasses
import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from opendpu.ir import Node, Quantization, Rounding
from opendpu.ops.fixed.requantize import FRACTION, Halves, quantized_multiplier

LEFT_SHIFT = 20
"""Bits that the inputs of a sum get before they are multiplied."""
SHIFTS = range(-31, 31)
"""Below, a factor is zero; above, it is the largest."""
RELU6 = 6.0
BOUNDS = "bounds"
"""Kind of an activation that is the smallest and the largest number, ``low`` and ``high``."""


def rounding_of(made: Quantization, *, dense: bool = False) -> Halves:
    """Return how the op rounds whose result is quantized so: as LiteRT's, or as near as possible.

    Halves away from zero are those of TFLite's files, halves to even of ONNX, whose products are
    computed in floating point.
    """
    twice = made.rounding == Rounding.STD_ROUND and not dense
    return Halves.TWICE if twice else Halves.ONCE


@dataclasses.dataclass(frozen=True)
class Multipliers:
    """Multipliers and shifts: of output channels, or of the inputs and the result."""

    multiplier: tuple[int, ...]
    shift: tuple[int, ...]

    @classmethod
    def of(cls, factors: Iterable[float]) -> "Multipliers":
        """Return those that stand for real factors."""
        pairs = [fixed_point(float(factor)) for factor in factors]
        return cls(tuple(m for m, _ in pairs), tuple(s for _, s in pairs))

    @classmethod
    def ones(cls, count: int) -> "Multipliers":
        """Return those that change no integer of less than 30 bits."""
        return cls(((1 << FRACTION) - 1,) * count, (0,) * count)

    def attributes(self, rounding: Halves, clamp: list[int]) -> dict[str, Any]:
        """Return the attributes of an op that requantizes with them."""
        return {
            "multiplier": list(self.multiplier), "shift": list(self.shift),
            "rounding": str(rounding), "clamp": clamp,
        }  # fmt: skip


def fixed_point(factor: float) -> tuple[int, int]:
    """Return multiplier (31 bits, the highest set) and shift of a factor that is not negative."""
    multiplier, shift = quantized_multiplier(factor)
    if shift > SHIFTS[-1]:
        return (1 << FRACTION) - 1, SHIFTS[-1]
    return (multiplier, shift) if shift >= SHIFTS[0] else (0, 0)


def of_layer(given: Quantization, weights: Quantization, made: Quantization) -> Multipliers:
    """Return those of a convolution."""
    return Multipliers.of(given.scale[0] * scale / made.scale[0] for scale in weights.scale)


def of_inner_product(given: Quantization, weights: Quantization, made: Quantization) -> Multipliers:
    """Return those of a fully connected layer, whose two scales are multiplied in float32."""
    if len(weights.scale) > 1:
        return of_layer(given, weights, made)
    product = np.float32(given.scale[0]) * np.float32(weights.scale[0])
    return Multipliers.of([float(product) / made.scale[0]])


def of_sum(first: Quantization, second: Quantization, made: Quantization) -> Multipliers:
    """Return those of the inputs and of the result of a sum."""
    twice = 2 * max(first.scale[0], second.scale[0])
    return Multipliers.of(
        [first.scale[0] / twice, second.scale[0] / twice,
         twice / (made.scale[0] * (1 << LEFT_SHIFT))]
    )  # fmt: skip


def of_product(first: Quantization, second: Quantization, made: Quantization) -> Multipliers:
    """Return that of a product, computed in float32."""
    one, other, result = (np.float32(q.scale[0]) for q in (first, second, made))
    return Multipliers.of([float(one * other / result)])


def of_copy(given: Quantization, made: Quantization, *, single: bool = False) -> Multipliers:
    """Return that between two scales; their quotient is ``single`` precision in activations."""
    if single:
        return Multipliers.of([float(np.float32(given.scale[0]) / np.float32(made.scale[0]))])
    return Multipliers.of([given.scale[0] / made.scale[0]])


def of_mean(given: Quantization, made: Quantization, count: int) -> Multipliers:
    """Return that of the mean of ``count`` elements: the copy's, divided by the number."""
    (multiplier,), (shift,) = dataclasses.astuple(of_copy(given, made))
    more = min(count.bit_length() - 1, 32, FRACTION + shift)
    return Multipliers(((multiplier << more) // count,), (shift - more,))


def clamp_of(activation: Node | None, made: Quantization) -> list[int]:
    """Return the smallest and largest integer that an activation leaves.

    Bounds beyond all integers leave the one that is next to them.
    """
    low, high = made.limits
    if activation is None:
        return [low, high]
    zero = made.zero_point[0]
    if activation.kind == BOUNDS:
        least, most = (_bound(activation.attrs[limit], made) for limit in ("low", "high"))
        return [int(min(max(limit, low), high)) for limit in (least, most)]
    if activation.kind == "relu6":
        quotient = np.float32(RELU6) / np.float32(made.scale[0])
        high = min(high, zero + math.floor(float(quotient) + 0.5))
    return [max(low, zero), high]


def _bound(limit: float, made: Quantization) -> float:
    """Return the integer that stands for a bound, halves away from zero."""
    if math.isinf(limit):
        return limit
    quotient = float(np.float32(limit) / np.float32(made.scale[0]))
    return made.zero_point[0] + math.copysign(math.floor(abs(quotient) + 0.5), quotient)
