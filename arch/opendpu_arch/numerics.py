# SPDX-License-Identifier: Apache-2.0
"""The integer arithmetic of every engine, on numpy arrays.

All DPU functions use integers only and are exact: they take accumulators (any integer dtype, used
as int64) and return int8. Rounding is *DPU rounding*: half up, ``floor(x + 1/2)``, once, on the
exact value, then saturation to -128..127. Because the activations NONE, RELU and RELU6 are
monotonic with integer bounds, applying them after the rounding gives the same bytes; LEAKYRELU is
applied before it.

The formulas are those of Xilinx' and AMD's Apache-2.0 instruction simulator (``amd/vart``,
sim-runner), which computes them in double precision; they were checked against AMD-compiled
programs where ``docs/reference`` says so.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from opendpu_arch.isa import ActType
from opendpu_arch.scaled import FACTOR_BITS, MULTIPLIER_BITS, SUM_BITS, Rounding

Int8Array = npt.NDArray[np.int8]
Int64Array = npt.NDArray[np.int64]
IntArray = npt.NDArray[np.integer[Any]]
FloatArray = npt.NDArray[np.floating[Any]]

RELU6_MAX = 96
"""Upper bound of RELU6: 6 with four fraction bits, whatever the output's fix point."""
HARD_SIGMOID_FACTOR = 2731
"""1/6 with 14 fraction bits."""
POOL_AVERAGE: dict[int, tuple[int, int]] = {3: (28, 8), 5: (10, 8), 6: (7, 8), 7: (21, 10)}
"""POOL average by ``kernel_w``: (factor, right shift); 1, 2, 4, 8 divide by kernel_h * kernel_w."""
MAX_SHIFT_BIAS = 20
"""Most that a bias is shifted left."""
MAX_CHANNEL_SHIFT = 15
"""Most that a channel adds to either shift, with the extension ``channel``."""
_MAX_SHIFT = 62


def shift_round(x: IntArray, right: int | Int64Array) -> Int64Array:
    """Return ``x / 2**right`` rounded half up, as int64; a negative ``right`` shifts left.

    An array of shifts broadcasts against ``x``.

    Shifts above 62 act like 62: every accumulator of the DPU is far below 2**60, so the result is
    zero either way.
    """
    wide = np.asarray(x, np.int64)
    if not isinstance(right, int):
        least = np.clip(right, 0, _MAX_SHIFT)
        return ((wide << np.maximum(-right, 0)) + ((1 << least) >> 1)) >> least
    if right <= 0:
        return wide << -right
    right = min(right, _MAX_SHIFT)
    return (wide + (1 << (right - 1))) >> right


def saturate(x: IntArray) -> Int8Array:
    """Return ``x`` clipped to -128..127, as int8."""
    return np.clip(x, -128, 127).astype(np.int8)


def signed_byte(field: int) -> int:
    """Return what an 8-bit field that is read as int8 means."""
    return (field & 0xFF) - ((field & 0x80) << 1)


def pool_shift(shift_cut: int) -> int:
    """Return the right shift that ``shift_cut`` of ALU pooling and POOL means.

    Values from 8 shift right by ``shift_cut - 8``, smaller ones left by ``shift_cut``.
    """
    return shift_cut - 8 if shift_cut >= 8 else -shift_cut


def prelu_shift(shift: int) -> int:
    """Return the right shift that ``shift_prelu_p`` or ``_n`` means: from 32 right, else left."""
    return shift - 32 if shift >= 32 else -shift


def write_shift(shift_write: int) -> int:
    """Return the right shift that ELEW ``shift_write`` means: from 16 right, else left."""
    return shift_write - 16 if shift_write >= 16 else -shift_write


def _activate(t: Int64Array, right: int | Int64Array, act_type: int) -> Int8Array:
    """Return ``saturate(round(act(t / 2**right)))``."""
    if act_type == ActType.LEAKYRELU:  # 26/256 = 13/2**7, before the only rounding
        return saturate(np.where(t < 0, shift_round(t * 13, right + 7), shift_round(t, right)))
    y = shift_round(t, right)
    if act_type == ActType.RELU:
        return saturate(np.maximum(y, 0))
    if act_type == ActType.RELU6:
        return saturate(np.clip(y, 0, RELU6_MAX))
    if act_type != ActType.NONE:
        raise ValueError(f"act_type is {act_type}, but must be NONE, RELU, LEAKYRELU or RELU6")
    return saturate(y)


def requantize(
    acc: IntArray, bias: IntArray, *, shift_bias: int, shift_cut: int, act_type: int = ActType.NONE
) -> Int8Array:
    """Finish a CONV, ALU DWCV or DPTWISE sum: bias, shift, activation, rounding.

    ``y = DPURound(act((2*acc + bias * 2**shift_bias) / 2**(shift_cut + 1)))``, where
    ``shift_bias`` = w + i - b + 1 and ``shift_cut`` = w + i - o in terms of fix points, RELU is
    max(0, v), LEAKYRELU is v*26/256 for v < 0 and RELU6 clamps to 0..96.

    ``acc`` is the sum of products, any shape; ``bias`` broadcasts against it.
    """
    t = 2 * np.asarray(acc, np.int64) + (np.asarray(bias, np.int64) << shift_bias)
    return _activate(t, shift_cut + 1, act_type)


def packed_shifts(cut: IntArray, bias: IntArray) -> Int8Array:
    """Return the bytes of SHIFT for what channels add to ``shift_cut`` and ``shift_bias``.

    Both are 0..15; the inverse is in :func:`requantize_by_channel`.
    """
    return (np.asarray(cut) | np.asarray(bias) << 4).astype(np.uint8).view(np.int8)


def requantize_by_channel(
    acc: IntArray,
    bias: IntArray,
    shifts: IntArray,
    *,
    shift_bias: int,
    shift_cut: int,
    act_type: int = ActType.NONE,
) -> Int8Array:
    """Finish a sum as :func:`requantize` does, with ``shifts`` of each channel added.

    The low four bits of a byte of ``shifts`` add to ``shift_cut``, the high ones to ``shift_bias``,
    up to 20 in all. ``bias`` and ``shifts`` broadcast against ``acc``.
    """
    byte = np.asarray(shifts, np.int64) & 0xFF
    left = np.minimum(shift_bias + (byte >> 4), MAX_SHIFT_BIAS)
    t = 2 * np.asarray(acc, np.int64) + (np.asarray(bias, np.int64) << left)
    return _activate(t, shift_cut + 1 + (byte & 15), act_type)


def multiply_by_quantized_multiplier(
    t: IntArray, multiplier: IntArray, shift: IntArray, rounding: Rounding
) -> Int64Array:
    """Return ``t * multiplier / 2**(31 + shift)``, rounded as TFLite's reference kernels do.

    TWICE: ``floor(t * multiplier / 2**31 + 1/2)``, then half away from zero on its
    ``2**-shift``-fold (gemmlowp's SaturatingRoundingDoublingHighMul and RoundingDivideByPOT, what
    MultiplyByQuantizedMultiplier in ``tensorflow/lite/kernels/internal/common.h`` is made of).
    ONCE: half away from zero on the exact product. ``t`` has at most 29 bits; the arguments
    broadcast.
    """
    product = np.asarray(t, np.int64) * np.asarray(multiplier, np.int64)
    right = np.asarray(shift, np.int64)
    if rounding == Rounding.TWICE:
        product = shift_round(product, MULTIPLIER_BITS)
    else:
        right = right + MULTIPLIER_BITS
    magnitude = (np.abs(product) + ((np.int64(1) << right) >> 1)) >> right
    return np.asarray(np.sign(product) * magnitude)


def requantize_scaled(
    acc: IntArray,
    bias: IntArray,
    multiplier: IntArray,
    shift: IntArray,
    *,
    zero: int,
    low: int,
    high: int,
    rounding: Rounding,
) -> Int8Array:
    """Finish a sum under the extension ``scaled``.

    ``y = clip(zero + round(t * multiplier / 2**(31 + shift)), low, high)``, where ``t`` is
    ``acc + bias``, saturated to 29 bits, and rounding is that of
    :func:`multiply_by_quantized_multiplier`. Where ``low`` exceeds ``high``, what exceeds ``high``
    becomes that and the rest ``low``.
    """
    largest = (1 << SUM_BITS - 1) - 1
    t = np.clip(np.asarray(acc, np.int64) + np.asarray(bias, np.int64), -largest - 1, largest)
    y = multiply_by_quantized_multiplier(t, multiplier, shift, rounding) + zero
    return np.where(y > high, high, np.maximum(y, low)).astype(np.int8)


def requantize_without_bias(
    acc: IntArray, *, shift_cut: int, act_type: int = ActType.NONE
) -> Int8Array:
    """Finish an ALU DWCVB0 or DWCVW16B0 sum: ``y = DPURound(act(acc / 2**shift_cut))``.

    DWCVW16B0 differs only in its weights: int16, one a channel group, see :func:`weights_16`.
    """
    return _activate(np.asarray(acc, np.int64), shift_cut, act_type)


def weights_16(words: Int8Array) -> npt.NDArray[np.int16]:
    """Return the int16 weights of DWCVW16B0: bytes 0 (low) and 1 (high) of every word.

    ``words`` has shape (..., bank width); the result has shape (...), one weight for all lanes.
    """
    low, high = words[..., 0].astype(np.int16), words[..., 1].astype(np.int16)
    return (low & 0xFF) | (high << 8)


def average_pool(total: IntArray, *, multi_factor: int, shift_cut: int) -> Int8Array:
    """Finish an ALU AVEPOOL: ``y = DPURound(total * factor * 2**S)``.

    ``total`` is the window's sum, padding zeros included; ``factor`` is the 8-bit field
    ``multi_factor`` taken as signed; S as in :func:`pool_shift`. (AMD's simulator sums in float32,
    which is exact while ``total * factor`` stays below 2**24; this is exact always.)
    """
    factor = signed_byte(multi_factor)
    return saturate(shift_round(np.asarray(total, np.int64) * factor, pool_shift(shift_cut)))


def max_pool(maximum: IntArray, *, shift_cut: int) -> Int8Array:
    """Finish an ALU MAXPOOL or MAXREDUCE, or a POOL max: ``y = DPURound(maximum * 2**S)``.

    S as in :func:`pool_shift`. MAXREDUCE is the maximum over the kernel window too; it only has no
    padding and no ``channel_offset``.
    """
    return saturate(shift_round(maximum, pool_shift(shift_cut)))


def pool_average(total: IntArray, *, kernel_h: int, kernel_w: int, shift_cut: int) -> Int8Array:
    """Finish a POOL average: ``y = DPURound(total * f * 2**S)``.

    ``f`` depends on ``kernel_w`` alone: 28/256 for 3, 10/256 for 5, 7/256 for 6, 21/1024 for 7,
    and 1/(kernel_h*kernel_w) for 1, 2, 4, 8, where kernel_h must be a power of two too.
    """
    factor, right = POOL_AVERAGE.get(kernel_w) or (1, (kernel_h * kernel_w).bit_length() - 1)
    wide = np.asarray(total, np.int64) * factor
    return saturate(shift_round(wide, right + pool_shift(shift_cut)))


def prelu(x: IntArray, factor: IntArray, *, shift_prelu_p: int, shift_prelu_n: int) -> Int8Array:
    """Apply ALU PRELU: ``x * factor / 2**n`` where x < 0, else ``x / 2**p``, rounded once.

    ``factor`` is int8 a channel from DWCONVW and broadcasts against ``x``; shifts as in
    :func:`prelu_shift`.
    """
    wide = np.asarray(x, np.int64)
    negative = shift_round(wide * np.asarray(factor, np.int64), prelu_shift(shift_prelu_n))
    positive = shift_round(wide, prelu_shift(shift_prelu_p))
    return saturate(np.where(wide < 0, negative, positive))


def leaky_relu(
    x: IntArray, *, multi_factor: int, shift_prelu_p: int, shift_prelu_n: int
) -> Int8Array:
    """Apply ALU LEAKYRELU: :func:`prelu` with the one signed 8-bit ``multi_factor``."""
    factor = np.int64(signed_byte(multi_factor))
    return prelu(x, np.asarray(factor), shift_prelu_p=shift_prelu_p, shift_prelu_n=shift_prelu_n)


def hard_sigmoid(x: IntArray, *, shift_bias: int, shift_cut: int) -> Int8Array:
    """Apply ALU HSIGMOID.

    ``y = DPURound(min(2**32, max(0, x*2731 + 3*2731 * 2**shift_bias)) / 2**shift_cut)``, where
    ``shift_bias`` = i and ``shift_cut`` = 14 + i - o; here ``shift_cut`` always shifts right.
    """
    line = np.asarray(x, np.int64) * HARD_SIGMOID_FACTOR
    line += (3 * HARD_SIGMOID_FACTOR) << shift_bias
    return saturate(shift_round(np.clip(line, 0, 1 << 32), shift_cut))


GUARD_BITS = 2
"""Bits that ELEW keeps of an input beyond those of its coarsest one."""


def _guarded(x: IntArray, shift_read: int) -> Int64Array:
    """Return ``floor(x * 4 / 2**shift_read)``: an ELEW input with its guard bits."""
    return (np.asarray(x, np.int64) << GUARD_BITS) >> shift_read


def eltwise_add(
    inputs: Sequence[IntArray], *, shift_read: Sequence[int], shift_write: int, relu: bool = False
) -> Int8Array:
    """Apply ELEW ADD: ``y = DPURound(relu(sum_i floor(x_i*4 / 2**shift_read_i) * F / 4))``.

    F = 2**-S with S as in :func:`write_shift`. One to four inputs of one shape.
    """
    terms = [_guarded(x, s) for x, s in zip(inputs, shift_read, strict=True)]
    y = shift_round(sum(terms[1:], terms[0]), write_shift(shift_write) + GUARD_BITS)
    return saturate(np.maximum(y, 0) if relu else y)


def eltwise_mult(
    inputs: Sequence[IntArray], *, shift_read: Sequence[int], shift_write: int, relu: bool = False
) -> Int8Array:
    """Apply ELEW MULT: ``y = DPURound(relu(prod_i floor(x_i*4 / 2**shift_read_i) * F / 16))``.

    F as in :func:`eltwise_add`. Two inputs of one shape.
    """
    first, second = (_guarded(x, s) for x, s in zip(inputs, shift_read, strict=True))
    y = shift_round(first * second, write_shift(shift_write) + 2 * GUARD_BITS)
    return saturate(np.maximum(y, 0) if relu else y)


def scaled_add(inputs: Sequence[Int8Array], terms: Sequence[IntArray]) -> Int64Array:
    """Return the sum of ELEW ADD under ``scaled``: of the terms of each input's bytes.

    A table of terms has shape (256,): those of 0..127, then those of -128..-1.
    """
    looked_up = [table[x.view(np.uint8)] for x, table in zip(inputs, terms, strict=True)]
    return np.asarray(np.sum(looked_up, axis=0, dtype=np.int64))


def scaled_mult(inputs: Sequence[Int8Array], terms: Sequence[IntArray]) -> Int64Array:
    """Return the product of ELEW MULT under ``scaled``: of the low ten bits of two terms."""
    half = 1 << FACTOR_BITS - 1
    first, second = (
        ((table[x.view(np.uint8)].astype(np.int64) + half) & (2 * half - 1)) - half
        for x, table in zip(inputs, terms, strict=True)
    )
    return np.asarray(first * second)


def look_up(y: Int8Array, table: Int8Array) -> Int8Array:
    """Apply the extension ``table``: every result becomes the entry that its byte counts to.

    ``table`` has shape (256,): what 0..127 become, then what -128..-1 become.
    """
    return table[np.asarray(y, np.int8).view(np.uint8)]


def subtract_mean(
    x: npt.NDArray[np.uint8], mean: npt.NDArray[np.uint8], *, mode_avg: int
) -> npt.NDArray[np.uint8]:
    """Apply LOAD's mean: the low eight bits of ``(x - mean) >> (mode_avg - 1)``.

    Both operands are unsigned bytes, the shift is arithmetic on their signed difference, and
    nothing saturates. ``mean`` has one byte for each byte of a pixel and broadcasts against ``x``;
    LOAD takes it from the BIAS bank, contiguous from word 0. Bytes that LOAD masks or fills with a
    constant are not changed.
    """
    difference = x.astype(np.int16) - mean.astype(np.int16)
    return (difference >> (mode_avg - 1)).astype(np.uint8)


def argmax(pixels: Int8Array, *, value: bool) -> npt.NDArray[np.uint8]:
    """Apply SAVE's argmax over the last axis; ties keep the lowest index.

    Returns, a byte a pixel, the low eight bits of the index or, with ``value``, the maximum itself.
    """
    if value:
        return np.asarray(pixels.max(axis=-1)).view(np.uint8)
    return np.asarray(np.argmax(pixels, axis=-1)).astype(np.uint8)


def round_float(x: FloatArray, round_mode: str = "DPU_ROUND") -> npt.NDArray[np.float64]:
    """Round to integers (kept as float64) the way an XIR ``round_mode`` says.

    DPU_ROUND: half up; STD_ROUND: half away from zero; PY3_ROUND: half to even.

    Raises
    ------
    ValueError
        ``round_mode`` is none of these.
    """
    wide = np.asarray(x, np.float64)
    if round_mode == "PY3_ROUND":
        return np.asarray(np.rint(wide))
    down = np.floor(wide)
    above = wide - down  # exact, unlike wide + 0.5
    if round_mode == "DPU_ROUND":
        return np.asarray(down + (above >= 0.5))
    if round_mode == "STD_ROUND":
        return np.asarray(np.where(wide < 0, down + (above > 0.5), down + (above >= 0.5)))
    raise ValueError(f"round_mode is {round_mode!r}, but must be DPU_ROUND, STD_ROUND or PY3_ROUND")


def quantize(
    x: FloatArray,
    fix_point: int | IntArray,
    *,
    bit_width: int = 8,
    signed: bool = True,
    round_mode: str = "DPU_ROUND",
) -> Int64Array:
    """Return ``clip(round(x * 2**fix_point))`` as int64, clipped to ``bit_width`` bits.

    ``fix_point`` may be negative, and an array that NumPy broadcasts to ``x``. NaN becomes zero.
    """
    low, high = (
        (-(1 << bit_width - 1), (1 << bit_width - 1) - 1) if signed else (0, (1 << bit_width) - 1)
    )
    scaled = np.ldexp(
        np.nan_to_num(np.asarray(x, np.float64), posinf=np.inf, neginf=-np.inf), fix_point
    )
    near = np.clip(scaled, low - 1, high + 1)  # infinities have no part behind the point
    return np.clip(round_float(near, round_mode), low, high).astype(np.int64)


def dequantize(q: IntArray, fix_point: int) -> npt.NDArray[np.float32]:
    """Return ``q / 2**fix_point`` as float32; exact for eight bits."""
    return np.ldexp(np.asarray(q, np.float32), -fix_point)
