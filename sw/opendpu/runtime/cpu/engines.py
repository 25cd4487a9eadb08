# SPDX-License-Identifier: Apache-2.0
"""Fixed-point ops whose engine approximates: the CPU gives the bytes that the DPU would give.

Averages multiply by a factor instead of dividing, additions cut their inputs to two guard bits,
1/6 of the hard-sigmoid has 14 bits. An op keeps its result when a limit moves it to the CPU.
"""

from collections.abc import Sequence

import numpy as np

from opendpu.ir.xir_bridge import channels_of
from opendpu.ops.average import average_factor
from opendpu.runtime.cpu import spatial
from opendpu.runtime.cpu.registry import Array, register
from opendpu_arch import numerics
from opendpu_arch.errors import GraphError
from xir import Op, Tensor

SIXTH, SIXTH_BITS = 2731, 14
"""1/6 and its fractional bits."""


def fix_point_of(tensor: Tensor) -> int:
    """Return the fix point of a tensor; GraphError if it has none."""
    if not tensor.has_attr("fix_point"):
        raise GraphError(f"tensor {tensor.name!r} has no attribute 'fix_point'")
    return int(tensor.get_attr("fix_point"))


def real_values(tensor: Tensor, values: Array) -> Array:
    """Return the real numbers, float64, that the integers of a tensor stand for."""
    channels = channels_of(tensor.get_attrs(), tensor.dims)
    if channels is None:
        return np.asarray(np.ldexp(np.asarray(values, np.float64), -fix_point_of(tensor)))
    points, axis = channels
    shape = [-1 if index == axis else 1 for index in range(np.ndim(values))]
    return np.asarray(np.ldexp(np.asarray(values, np.float64), -np.reshape(points, shape)))


def _change(op: Op) -> int:
    """Return the fractional bits that the first input has more than the result."""
    return fix_point_of(op.get_input_tensors()[0]) - fix_point_of(op.get_output_tensor())


def average(op: Op, inputs: Sequence[Array]) -> Array:
    """Return sums of windows times a factor; padding counts as elements."""
    width, height = (int(k) for k in op.get_attr("kernel"))
    factor, shift = average_factor(kernel_h=height, kernel_w=width)
    total = spatial.window_sums(op, inputs[0].astype(np.int64))
    return numerics.saturate(numerics.shift_round(total * factor, shift + _change(op)))


def add(op: Op, inputs: Sequence[Array]) -> Array:
    """Return the sum, each input cut to two bits beyond the coarsest one."""
    points = [fix_point_of(tensor) for tensor in op.get_input_tensors()]
    coarse = min(points)
    total: Array = np.zeros((), np.int64)
    for values, point in zip(inputs, points, strict=True):
        total = total + ((values.astype(np.int64) << numerics.GUARD_BITS) >> (point - coarse))
    right = coarse - fix_point_of(op.get_output_tensor()) + numerics.GUARD_BITS
    result = numerics.shift_round(total, right)
    relu = op.has_attr("nonlinear") and op.get_attr("nonlinear") == "RELU"
    return numerics.saturate(np.maximum(result, 0) if relu else result)


@register("hard-sigmoid-fix")
def hard_sigmoid(op: Op, inputs: Sequence[Array]) -> Array:
    """Return ``relu6(x + 3) * 2731 / 2**14``."""
    point, wide = fix_point_of(op.get_input_tensors()[0]), inputs[0].astype(np.int64)
    if point < 0:  # no bit for the 3
        wide, point = wide << -point, 0
    line = np.clip(wide + (3 << point), 0, 6 << point) * SIXTH
    cut = SIXTH_BITS + point - fix_point_of(op.get_output_tensor())
    return numerics.saturate(numerics.shift_round(line, cut))


@register("table-fix")
def table(op: Op, inputs: Sequence[Array]) -> Array:
    """Return the entry for each byte."""
    return np.array(op.get_attr("table"), np.int8)[inputs[0].view(np.uint8)]


@register("leaky-relu-fix")
def leaky_relu(op: Op, inputs: Sequence[Array]) -> Array:
    """Multiply negative values by ``factor / 2**shift``."""
    factor, shift = int(op.get_attr("factor")), int(op.get_attr("shift"))
    return _prelu(op, inputs[0], np.asarray(factor), shift)


@register("prelu-fix")
def prelu(op: Op, inputs: Sequence[Array]) -> Array:
    """Multiply negative values by one slope a channel."""
    return _prelu(op, inputs[0], inputs[1], fix_point_of(op.get_input_tensors()[1]))


def _prelu(op: Op, values: Array, factor: Array, shift: int) -> Array:
    wide, right = values.astype(np.int64), _change(op)
    negative = numerics.shift_round(wide * factor.astype(np.int64), right + shift)
    result = np.where(wide < 0, negative, numerics.shift_round(wide, right))
    return numerics.saturate(result)
