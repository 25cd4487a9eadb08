# SPDX-License-Identifier: Apache-2.0
"""Functions of one value that LiteRT's reference kernels compute in integers, as tables.

Sums and products with one constant (``add.h``, ``mul.h``), LeakyReLU (``leaky_relu.h``) and
hard-swish (``hard_swish.h`` of ``tensorflow/lite/kernels/internal/reference``). A table has the
result for each byte of the input, in order of the bytes.
"""

import numpy as np
import numpy.typing as npt

from opendpu.compiler.legalize.context import feature_shape
from opendpu.compiler.legalize.multipliers import (
    LEFT_SHIFT,
    Multipliers,
    clamp_of,
    fixed_point,
    of_product,
    of_sum,
    rounding_of,
)
from opendpu.compiler.legalize.registry import Call
from opendpu.ir import Node, Quantization
from opendpu_arch.numerics import multiply_by_quantized_multiplier, shift_round
from opendpu_arch.scaled import Rounding
from opendpu_arch.table import ENTRIES

Wide = npt.NDArray[np.int64]
BYTES = np.arange(ENTRIES, dtype=np.uint8).view(np.int8).astype(np.int64)
"""Integers in the order of their bytes."""
RELUISH_SCALE = np.float32(3.0 / 32768)
"""Of 16-bit numbers between -3 and 3."""
HIRES_BITS = 7
"""Bits by which hard-swish makes its input finer."""
INT16 = np.iinfo(np.int16)


def add_table(call: Call, table: Wide) -> str:
    """Add the op of a table; the results are clamped to those that the activation leaves."""
    context, (source,) = call.context, call.sources
    low, high = clamp_of(call.activation, call.fix.quantization)
    entries = np.clip(table, low, high)
    given = context.view(source, feature_shape(context.result[source].shape))
    return context.add(
        call.node, call.fix, "table-fix", {"input": [given]}, {"table": entries.tolist()},
        shape=context.result[given].shape,
    )  # fmt: skip


def with_constant(
    kind: str, feature: Quantization, constant: Node, made: Quantization, *, first: bool = False
) -> Wide:
    """Return the sum, difference or product with a constant of one element.

    ``first`` says whether it is the minuend of a difference.
    """
    assert constant.value is not None
    other, rounding = constant.quantization, Rounding[rounding_of(made)]
    x, c = BYTES - feature.zero_point[0], int(constant.value.ravel()[0]) - other.zero_point[0]
    if kind == "mul":
        found = of_product(feature, other, made)
        return multiplied(x * c, found, 0, rounding) + made.zero_point[0]
    found = of_sum(feature, other, made)
    term = multiplied(x << LEFT_SHIFT, found, 0, rounding)
    same = multiplied(np.array(c << LEFT_SHIFT), found, 1, rounding)
    if kind == "sub":
        term, same = (same, -term) if first else (term, -same)
    return multiplied(term + same, found, 2, rounding) + made.zero_point[0]


def leaky_relu(given: Quantization, made: Quantization, slope: float) -> Wide:
    """Return the input where it is not negative, else times the slope; each has its multiplier."""
    scale, result = np.float32(given.scale[0]), np.float32(made.scale[0])
    found = Multipliers.of([float(scale / result), float(scale * np.float32(slope) / result)])
    x = BYTES - given.zero_point[0]
    positive, negative = (multiplied(x, found, n, Rounding.TWICE) for n in range(2))
    return np.where(x >= 0, positive, negative) + made.zero_point[0]


def negative_part(given: Quantization) -> Wide:
    """Return the input where it is negative, else its zero point."""
    return np.minimum(BYTES, given.zero_point[0])


def positive_part(given: Quantization, made: Quantization) -> Wide:
    """Return the input at the scale of the result where it is not negative, else zero."""
    factor = float(np.float32(given.scale[0]) / np.float32(made.scale[0]))
    x = np.maximum(BYTES - given.zero_point[0], 0)
    rounding = Rounding[rounding_of(made)]
    return multiplied(x, Multipliers.of([factor]), 0, rounding) + made.zero_point[0]


def hard_swish(given: Quantization, made: Quantization) -> Wide:
    """Return ``x * relu6(x + 3) / 6``, computed with 16 bits."""
    hires = np.float32(1 / (1 << HIRES_BITS)) * np.float32(given.scale[0])
    factor, shift = _short(float(hires / np.float32(made.scale[0])))
    gate_factor, gate_shift = _short(float(hires / RELUISH_SCALE))
    x = (BYTES - given.zero_point[0]) << HIRES_BITS
    output = _doubled_high(x, factor)
    gate = _saturated(x << max(gate_shift - 1, 0))
    gate = _saturated(_doubled_high(gate, gate_factor) << (1 if gate_shift > 0 else 0))
    gate = (_rounded_away(gate, max(-gate_shift, 0)) + (1 << 15)) >> 1
    product = gate * output
    made_wide = np.sign(product) * (np.abs(product) >> 15)
    result = made_wide << max(shift, 0)
    return _rounded_away(result, max(-shift, 0)) + made.zero_point[0]


def multiplied(values: Wide, found: Multipliers, which: int, rounding: Rounding) -> Wide:
    """Return integers times one of some factors, which may be one or more."""
    multiplier, shift = found.multiplier[which], found.shift[which]
    return multiply_by_quantized_multiplier(
        values << max(shift, 0), np.array(multiplier), np.array(max(-shift, 0)), rounding
    )


def _short(factor: float) -> tuple[int, int]:
    """Return the multiplier of 15 bits, and the shift, of a factor."""
    multiplier, shift = fixed_point(factor)
    return min((multiplier + (1 << 15)) >> 16, INT16.max), shift


def _doubled_high(values: Wide, factor: int) -> Wide:
    """Return the upper half of the doubled product, halves up."""
    return np.asarray(shift_round(values * factor, 15), np.int64)


def _saturated(values: Wide) -> Wide:
    return np.clip(values, INT16.min, INT16.max)


def _rounded_away(values: Wide, right: int) -> Wide:
    """Return integers shifted right, halves away from zero."""
    size = (np.abs(values) + ((1 << right) >> 1)) >> right
    return np.asarray(np.sign(values) * size, np.int64)
