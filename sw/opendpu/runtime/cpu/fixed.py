# SPDX-License-Identifier: Apache-2.0
"""Fixed-point ops: conversions at borders, and every ``-fix`` op through its float counterpart.

A ``-fix`` op is computed exactly in float64: inputs times ``2**-fix_point``, the float op, then
rounding to the fix point of its result, with saturation. Where the DPU's engines approximate,
:mod:`opendpu.runtime.cpu.engines` does as they do.
"""

from collections.abc import Sequence

import numpy as np

from opendpu.runtime.cpu import elementwise, engines, layout, spatial
from opendpu.runtime.cpu.engines import fix_point_of, real_values
from opendpu.runtime.cpu.registry import Array, Implementation, register
from opendpu_arch import numerics
from opendpu_arch.errors import UnsupportedError
from xir import DataKind, Op, Tensor

LEAKY_SLOPE = 26 / 256
"""Slope of the engines' leaky ReLU."""


def _requantize(values: Array, tensor: Tensor) -> Array:
    return numerics.quantize(
        values,
        fix_point_of(tensor),
        bit_width=tensor.data_type.bit_width,
        signed=tensor.data_type.type in (DataKind.XINT, DataKind.INT),
        round_mode=tensor.get_attr("round_mode") if tensor.has_attr("round_mode") else "DPU_ROUND",
    )


def _activate(op: Op, values: Array) -> Array:
    kind = str(op.get_attr("nonlinear")).upper() if op.has_attr("nonlinear") else "NONE"
    match kind:
        case "" | "NONE":
            return values
        case "RELU":
            return np.maximum(values, 0)
        case "RELU6":
            return np.clip(values, 0, 6)
        case "LEAKYRELU":
            return np.where(values < 0, values * LEAKY_SLOPE, values)
        case "HSIGMOID":
            return elementwise.hard_sigmoid(values)
        case "HSWISH":
            return np.asarray(values * elementwise.hard_sigmoid(values))
    raise UnsupportedError(f"op {op.get_name()!r}: nonlinear is {kind!r}, which needs the DPU")


def fixed(implementation: Implementation) -> Implementation:
    """Return the fixed-point form of a float implementation."""

    def compute(op: Op, inputs: Sequence[Array]) -> Array:
        tensors = op.get_input_tensors()
        floats = [
            real_values(tensor, values) for values, tensor in zip(inputs, tensors, strict=True)
        ]
        result = _activate(op, np.asarray(implementation(op, floats)))
        return _requantize(result, op.get_output_tensor())

    return compute


@register("pool-fix")
def pool(op: Op, inputs: Sequence[Array]) -> Array:
    """Return the maximum or the average of each window."""
    match str(op.get_attr("type")).upper():
        case "MAX":
            return fixed(spatial.maxpool2d)(op, inputs)
        case "AVG":
            return engines.average(op, inputs)
    raise UnsupportedError(
        f"op {op.get_name()!r}: type is {op.get_attr('type')!r}, but must be MAX or AVG"
    )


@register("eltwise-fix")
def eltwise(op: Op, inputs: Sequence[Array]) -> Array:
    """Return the sum, difference or product."""
    if str(op.get_attr("type")).upper() == "ADD":
        return engines.add(op, inputs)
    return fixed(_eltwise)(op, inputs)


def _eltwise(op: Op, inputs: Sequence[Array]) -> Array:
    functions = {"ADD": np.add, "SUB": np.subtract, "MUL": np.multiply}
    kind = op.get_attr("type").upper()
    if kind not in functions:
        known = ", ".join(functions)
        raise UnsupportedError(
            f"op {op.get_name()!r}: type is {kind!r}, but must be one of {known}"
        )
    result = inputs[0]
    for values in inputs[1:]:
        result = functions[kind](result, values)
    return result


@register("pad-fix")
def pad(op: Op, inputs: Sequence[Array]) -> Array:
    """Surround with a constant, one byte, or with mirrored elements."""
    widths = list(zip(*[iter(op.get_attr("paddings"))] * 2, strict=True))
    mode = op.get_attr("mode").upper()
    if mode != "CONSTANT":
        return layout.pad(op, inputs)
    given = op.get_attr("constant_values") if op.has_attr("constant_values") else b""
    value = int.from_bytes(given[:1], signed=True)
    return np.pad(inputs[0], widths, constant_values=value)


def _product(op: Op, inputs: Sequence[Array]) -> Array:
    """Return every row of the first input times every row of the second."""
    return np.asarray(inputs[0] @ np.swapaxes(inputs[1], -1, -2))


for _name, _implementation in {
    "conv2d-fix": spatial.conv2d,
    "depthwise-conv2d-fix": spatial.conv2d,
    "transposed-conv2d-fix": spatial.transposed_conv2d,
    "transposed-depthwise-conv2d-fix": spatial.transposed_conv2d,
    "depthwise-fix": _eltwise,
    "matmul-fix": _product,
    "concat-fix": layout.concat,
    "strided_slice-fix": layout.strided_slice,
    "upsample-fix": layout.resize,
    "downsample-fix": layout.resize,
    "reduction_max-fix": elementwise.reduction(np.max),
}.items():
    register(_name)(fixed(_implementation))
