# SPDX-License-Identifier: Apache-2.0
"""Integers with a scale: ``integer = saturate(round(real / scale) + zero_point)``.

As ONNX's ``QuantizeLinear`` and ``DequantizeLinear`` define it, for any width. Up to 24 bits,
float32 holds every integer; biases of up to 32 bits are computed in float64 by numpy only.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from opendpu.ir import Array, Quantization, Rounding
from opendpu.ops.formats.node_builder import NodeBuilder
from opendpu.ops.formats.rounding import emit_rounded, rounded

INT8 = (-128, 127)
EXACT_BITS = 24
"""Widths whose integers float32 has all."""
BLOCK = 1 << 16
"""Values that are quantized at a time, so that they stay in the cache."""


def fake_quantize(values: Array, quantization: Quantization) -> Array:
    """Return float32 numbers as integers stand for them."""
    kind = np.float32 if quantization.bits <= EXACT_BITS else np.float64
    shifted = quantization.is_power_of_two and kind == np.float32
    if shifted and quantization.rounding == Rounding.DPU_ROUND:
        return _of_dpu(values, quantization)
    scale = along(quantization.scale, quantization, values.ndim, kind)
    low, high = quantization.limits
    if quantization.is_power_of_two:
        made = np.multiply(values, 1 / scale, dtype=kind)
    else:
        made = np.divide(values, scale, dtype=kind)
    made = rounded(made, quantization.rounding)
    if any(quantization.zero_point):
        zero = along(quantization.zero_point, quantization, values.ndim, kind)
        made += zero
        np.clip(made, low, high, out=made)
        made -= zero
    else:
        np.clip(made, low, high, out=made)
    made *= scale
    return made.astype(np.float32, copy=False)


def integers_of(values: Array, quantization: Quantization) -> npt.NDArray[np.int64]:
    """Return the integers that stand for real numbers, computed in float64."""
    scale = along(quantization.scale, quantization, values.ndim, np.float64)
    zero = along(quantization.zero_point, quantization, values.ndim, np.float64)
    made = rounded(np.divide(values, scale, dtype=np.float64), quantization.rounding) + zero
    return np.asarray(np.clip(made, *quantization.limits), np.int64)


def real_numbers(integers: Array, quantization: Quantization) -> npt.NDArray[np.float32]:
    """Return the real numbers that integers stand for."""
    scale = along(quantization.scale, quantization, integers.ndim, np.float64)
    zero = along(quantization.zero_point, quantization, integers.ndim, np.float64)
    return np.asarray((integers.astype(np.float64) - zero) * scale, np.float32)


def _of_dpu(values: Array, quantization: Quantization) -> Array:
    """Do that for powers of two and halves up, without a step too many, in blocks in the cache."""
    made = np.empty_like(values, np.float32)
    source, target = values.ravel(order="K"), made.ravel(order="K")
    if not np.may_share_memory(target, made):  # axes with gaps between them
        return _in_steps(values, made, quantization)
    for start in range(0, target.size, BLOCK):
        part = slice(start, start + BLOCK)
        _in_steps(source[part], target[part], quantization)
    return made


def _in_steps(values: Array, made: Array, quantization: Quantization) -> Array:
    """Write quantized values into an array, and return it."""
    low, high = quantization.limits
    with np.errstate(over="ignore"):  # what float32 has no more saturates, as infinity does
        np.multiply(values, np.float32(2 / quantization.scale[0]), out=made)
    np.floor(made, out=made)
    made *= np.float32(0.5)
    np.ceil(made, out=made)
    np.maximum(made, np.float32(low), out=made)
    np.minimum(made, np.float32(high), out=made)
    made *= np.float32(quantization.scale[0])
    return made


def are_dpu_bytes(quantization: Quantization) -> bool:
    """Return whether numbers become int8 as on the DPU: by a power of two, halves up, all 256."""
    return (
        quantization.is_power_of_two
        and quantization.rounding == Rounding.DPU_ROUND
        and quantization.limits == INT8
        and len(quantization.scale) == 1
    )


def emit_dpu_bytes(builder: NodeBuilder, value: str, quantization: Quantization) -> str:
    """Add the nodes that round, saturate and make real numbers again, for :func:`are_dpu_bytes`.

    Five nodes, the last two on bytes, where :func:`emit_scaled` and :func:`emit_real` have seven:
    what is computed of large tensors takes as long as its memory. With ``f = floor(2 x)``, a half
    added makes ``QuantizeLinear``, which divides by 2, round as halves up do: ``(f + 1/2) / 2`` is
    a quarter above an integer or above a half. It saturates, too. NaN becomes an integer.
    """

    def constant(number: float, kind: npt.DTypeLike = np.float32) -> str:
        return builder.initializer(np.array(number, kind))

    (scale,), zero = quantization.scale, constant(0, np.int8)
    value = builder.op("Floor", [builder.op("Mul", [value, constant(2 / scale)])])
    value = builder.op("Add", [value, constant(0.5)])
    value = builder.op("QuantizeLinear", [value, constant(2), zero])
    return builder.op("DequantizeLinear", [value, constant(scale), zero])


def emit_integers(builder: NodeBuilder, value: str, quantization: Quantization) -> str:
    """Add nodes that make integers, as float32, of real numbers; one scale for the tensor."""
    return emit_scaled(builder, value, quantization, 0, channels_first=False)


def emit_scaled(
    builder: NodeBuilder,
    value: str,
    quantization: Quantization,
    rank: int,
    *,
    channels_first: bool,
) -> str:
    """Add nodes that make integers, as float32, of real numbers; return the name of the result."""

    def constant(numbers: Sequence[float]) -> str:
        made = along(numbers, quantization, rank, np.float32, channels_first=channels_first)
        return builder.initializer(made)

    if quantization.is_power_of_two:
        value = builder.op("Mul", [value, constant([1 / quantization.scale[0]])])
    else:
        value = builder.op("Div", [value, constant(quantization.scale)])
    value = emit_rounded(builder, value, quantization.rounding)
    if any(quantization.zero_point):
        value = builder.op("Add", [value, constant(quantization.zero_point)])
    low, high = (builder.initializer(np.array(n, np.float32)) for n in quantization.limits)
    return builder.op("Clip", [value, low, high])


def emit_real(
    builder: NodeBuilder,
    value: str,
    quantization: Quantization,
    rank: int,
    *,
    channels_first: bool,
) -> str:
    """Add nodes that make real numbers of integers, as float32; return the name of the result."""

    def constant(numbers: Sequence[float]) -> str:
        made = along(numbers, quantization, rank, np.float32, channels_first=channels_first)
        return builder.initializer(made)

    if any(quantization.zero_point):
        value = builder.op("Sub", [value, constant(quantization.zero_point)])
    return builder.op("Mul", [value, constant(quantization.scale)])


def along(
    numbers: Sequence[float],
    quantization: Quantization,
    rank: int,
    kind: npt.DTypeLike,
    *,
    channels_first: bool = False,
) -> Array:
    """Return scales or zero points in a shape that broadcasts to the tensor's."""
    array = np.array(numbers, kind)
    if quantization.axis is None or array.size == 1:
        return array.reshape(())
    axis = quantization.axis % rank
    if channels_first:
        axis = (0, 2, 3, 1)[axis]
    return array.reshape([-1 if index == axis else 1 for index in range(rank)])
