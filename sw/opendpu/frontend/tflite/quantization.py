# SPDX-License-Identifier: Apache-2.0
"""What the scales of a quantized file mean for the DPU, which has powers of two."""

import enum
import math
from collections.abc import Iterable

import numpy as np
from onnx import TensorProto, helper

from opendpu.frontend.building import Builder
from opendpu.frontend.tflite.file import Tensor
from opendpu.ir.types import Rounding
from opendpu_arch.errors import UnsupportedError

LARGEST = 127
"""Largest integer of 8 bits, which the largest number in a range is not to exceed."""
DOMAIN, OPERATOR = "vai", "fix_neuron"
HALF_UP = 2
"""``fix_neuron``'s method that rounds as :attr:`Rounding.DPU_ROUND`."""


class Requantize(enum.StrEnum):
    """What becomes of a file whose scales the DPU does not compute with."""

    NO = "no"
    """An error that says so."""
    DATA = "data"
    """The float network of its weights, to be quantized with samples."""
    RANGES = "ranges"
    """A quantized network: every range in the file gets the power of two that holds it."""


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
        "the scales and says what that costs, a float model loses less"
    )


def fix_point(tensor: Tensor) -> int:
    """Return the fractional bits at which 8 bits hold every number that a tensor can."""
    if is_power_of_two(tensor):
        return 1 - math.frexp(tensor.scale[0])[1]
    limits = np.iinfo(tensor.dtype)
    scale, zero = max(tensor.scale), (tensor.zero_point or (0,))[0]
    most = max(abs(int(limits.min) - zero), abs(int(limits.max) - zero)) * scale
    return math.floor(math.log2((LARGEST + 0.5) / most))


def fixed(b: Builder, value: str, point: int) -> str:
    """Append the rounding of a value to 8 bits with ``point`` fractional bits."""
    assert Rounding.DPU_ROUND  # what HALF_UP means
    factor = b.constant(np.array([math.ldexp(1.0, point)], np.float32), f"{value}/factor")
    limit = b.constant(np.array([LARGEST], np.float32), f"{value}/limit")
    method = b.constant(np.array([HALF_UP], np.int64), f"{value}/method")
    return b.node(OPERATOR, [value, limit, factor, method], f"{value}/fix", domain=DOMAIN)


def range_of(tensor: Tensor) -> tuple[float, float]:
    """Return the smallest and largest number that a quantized tensor can hold."""
    limits = np.iinfo(tensor.dtype)
    scale, zero = max(tensor.scale), (tensor.zero_point or (0,))[0]
    return (int(limits.min) - zero) * scale, (int(limits.max) - zero) * scale


def item_of(name: str, tensor: Tensor, dims: Iterable[int | str]) -> "object":
    """Return what ONNX calls an input: name, type and dimensions; integers become real numbers."""
    dtype = np.dtype(np.float32) if tensor.is_quantized else tensor.dtype
    kind = TensorProto.UNDEFINED if dtype == object else helper.np_dtype_to_tensor_dtype(dtype)
    return helper.make_tensor_value_info(name, kind, list(dims))
