# SPDX-License-Identifier: Apache-2.0
"""What the scales of a quantized file mean for the DPU, which has powers of two.

With the extension ``scaled``, they stay what they are: :func:`dequantized` and :func:`quantized`.
"""

import dataclasses
import math
from collections.abc import Iterable

import numpy as np

from opendpu.frontend.building import Builder
from opendpu.frontend.tflite.file import Tensor
from opendpu.ir import FloatGraph, Rounding
from opendpu.ops.quantizing import LARGEST
from opendpu_arch.errors import UnsupportedError


def is_power_of_two(tensor: Tensor) -> bool:
    """Return whether one power of two is the scale, and zero stands for zero."""
    return (
        len(tensor.scale) == 1 and not any(tensor.zero_point) and tensor.dtype == np.int8
        and tensor.scale[0] > 0 and math.frexp(tensor.scale[0])[0] == 0.5
    )  # fmt: skip


def check(label: str, tensors: Iterable[Tensor]) -> None:
    """Check that the DPU can compute with the scales of some quantized tensors as they are.

    Raises
    ------
    UnsupportedError
        It cannot, with the first tensor for which it cannot.
    """
    every = list(tensors)
    others = [tensor for tensor in every if not is_power_of_two(tensor)]
    if not others:
        return
    first = others[0]
    scale = f"scale {first.scale[0]:.6g}"
    if len(first.scale) > 1:
        scale = f"{len(first.scale)} scales"
    zero = f", zero point {first.zero_point[0]}" if any(first.zero_point) else ""
    raise UnsupportedError(
        f"{label} is quantized with scales that the DPU does not compute with: {len(others)} of "
        f"{len(every)} tensors, the first {first.name!r} ({first.dtype}, {scale}{zero}), but the "
        "DPU needs int8, one scale that is a power of two, and zero point 0; --requantize changes "
        "the scales and says what that costs, a float model loses less; a target with the "
        "extension scaled computes with them as they are"
    )


def check_width(label: str, tensors: Iterable[Tensor]) -> None:
    """Check that quantized tensors have the eight bits of the extension ``scaled``.

    Raises
    ------
    UnsupportedError
        Some have not, with the first of them.
    """
    every = list(tensors)
    wide = [tensor for tensor in every if tensor.dtype not in (np.int8, np.uint8)]
    if wide:
        raise UnsupportedError(
            f"{label} has {len(wide)} of {len(every)} quantized tensors in other integers than a "
            f"target with the extension scaled computes with, the first {wide[0].name!r} in "
            f"{wide[0].dtype}, but that has int8 and uint8; --requantize gives them 8 bits, a "
            "float model loses less"
        )


def fix_point(tensor: Tensor) -> int:
    """Return the fractional bits at which 8 bits hold every number that a tensor can."""
    if is_power_of_two(tensor):
        return 1 - math.frexp(tensor.scale[0])[1]
    limits = np.iinfo(tensor.dtype)
    scale, zero = max(tensor.scale), (tensor.zero_point or (0,))[0]
    most = max(abs(int(limits.min) - zero), abs(int(limits.max) - zero)) * scale
    return math.floor(math.log2((LARGEST + 0.5) / most))


def range_of(tensor: Tensor) -> tuple[float, float]:
    """Return the smallest and largest number that a quantized tensor can hold."""
    limits = np.iinfo(tensor.dtype)
    scale, zero = max(tensor.scale), (tensor.zero_point or (0,))[0]
    return (int(limits.min) - zero) * scale, (int(limits.max) - zero) * scale


def dequantized(b: Builder, tensor: Tensor) -> str:
    """Append a constant in integers and what makes real numbers of it; return these."""
    assert tensor.value is not None, tensor.name
    stored = b.constant(tensor.value, f"{tensor.name}/integers")
    return b.node("DequantizeLinear", [stored, *_grid(b, tensor)], tensor.name, axis=tensor.axis)


def quantized(b: Builder, tensor: Tensor, value: str) -> str:
    """Append the rounding of a value to what a tensor can hold; return the real numbers."""
    grid = _grid(b, tensor)
    integers = b.node("QuantizeLinear", [value, *grid], f"{tensor.name}/quantized")
    return b.node("DequantizeLinear", [integers, *grid], f"{tensor.name}/dequantized")


def round_away(graph: FloatGraph) -> None:
    """Let every ``fix`` round halves away from zero, as TFLite's operator QUANTIZE does."""
    for node in graph:
        if node.kind == "fix":
            made = dataclasses.replace(node.quantization, rounding=Rounding.STD_ROUND)
            node.type = node.type.with_quantization(made)


def _grid(b: Builder, tensor: Tensor) -> list[str]:
    """Append scale and zero point as ONNX has them: a scalar, or one for each index."""
    count = len(tensor.scale)
    zero = [*tensor.zero_point, *[0] * count][:count]
    shape = (count,) if count > 1 else ()
    return [
        b.constant(np.array(tensor.scale, np.float32).reshape(shape), f"{tensor.name}/scale"),
        b.constant(np.array(zero, tensor.dtype).reshape(shape), f"{tensor.name}/zero_point"),
    ]
