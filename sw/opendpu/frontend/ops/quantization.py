# SPDX-License-Identifier: Apache-2.0
"""Quantized models: pairs of QuantizeLinear and DequantizeLinear, AMD's variants, FixNeuron.

A pair on a computed tensor becomes a ``fix`` op; one on a constant puts the constant on its grid
and is remembered for the ``fix`` behind it. The DPU rounds halves up; ONNX rounds them to even.
"""

import math
from typing import Any

import numpy as np

from opendpu.frontend.context import Array, Call
from opendpu.frontend.ops.registry import Layout, handles
from opendpu.frontend.refusal import Refusal
from opendpu.frontend.source import as_float
from opendpu.ir import Quantization, Rounding
from opendpu.ops.quantizing import BOTH, DEQUANTIZE, QUANTIZE, ROUNDINGS
from opendpu_arch import numerics

_ROUNDING = {2: Rounding.DPU_ROUND, 3: Rounding.STD_ROUND}
"""Methods of NNDCT's operators; every other operator rounds halves to even."""


@handles(*QUANTIZE, layout=Layout.NEUTRAL)
def quantize(call: Call) -> None:
    """Convert to ``fix``, or put a constant on its grid."""
    nndct = call.proto.domain == "vai"
    scale, zero = (3, 4) if nndct else (1, 2)
    point = _point(call, _scale(call, scale), _zero_point(call, zero))
    method = int(call.weights(5, "method").ravel()[0]) if nndct and call.has(5) else 0
    _fix(call, point, _ROUNDING.get(method, Rounding.PY3_ROUND))


@handles(*BOTH, layout=Layout.NEUTRAL)
def fix_neuron(call: Call) -> None:
    """Convert to ``fix``; NNDCT's form has the factor 1 / scale as its third input."""
    if call.proto.op_type == "FixNeuron":
        point = _point(call, _scale(call, 1), _zero_point(call, 2))
        _fix(call, point, Rounding.PY3_ROUND)
        return
    method = int(call.weights(3, "method").ravel()[0]) if call.has(3) else 2
    point = _point(call, 1 / _scale(call, 2), np.zeros(1, np.int8))
    _fix(call, point, _ROUNDING.get(method, Rounding.PY3_ROUND))


@handles(*DEQUANTIZE, layout=Layout.NEUTRAL)
def dequantize(call: Call) -> None:
    """Bind the output to the ``fix`` before, or to a constant's real values."""
    context, name = call.context, call.name(0)
    scale, zero = _scale(call, 1), _zero_point(call, 2)
    stored = context.constants.get(name)
    if stored is not None and name not in context.points:
        _stored_constant(call, stored, scale, zero)
        return
    point = _point(call, scale, zero)
    before = context.points.get(name) if stored is not None else _point_of(call)
    if before != point:
        raise Refusal(
            f"tensor {name!r} is quantized with scale 2**{-before if before is not None else '?'}, "
            f"but dequantized with 2**{-point}; both must be the same"
        )
    if stored is not None:
        context.constants[call.output], context.points[call.output] = stored, point
    else:
        call.bind(call.value(0))


@handles(*ROUNDINGS, layout=Layout.NEUTRAL)
def rounding(call: Call) -> None:
    """Bind the output to the input: the DPU rounds so by itself."""
    name = call.name(0)
    if name in call.context.constants:
        call.context.constants[call.output] = call.context.constants[name]
        if name in call.context.points:
            call.context.points[call.output] = call.context.points[name]
    else:
        call.bind(call.value(0))


def _stored_constant(call: Call, stored: Array, scale: Array, zero: Array) -> None:
    """Take over a constant that the model stores in integers."""
    if stored.dtype.kind not in "iu":
        raise Refusal(f"constant {call.name(0)!r} has type {stored.dtype}, but must be integer")
    if stored.dtype.itemsize == 1 and call.context.source.quantized:
        call.context.points[call.output] = _point(call, scale, zero)
    # Biases of 32 bits are quantized to 8 later, and float models may store any weights so.
    axis = int(call.attrs.get("axis", 1)) if stored.ndim > 1 else 0
    shape = [1] * stored.ndim
    if scale.size > 1:
        shape[axis] = scale.size
    elif not shape:
        shape = []
    real = (stored.astype(np.float64) - np.float64(zero.ravel()[0])) * scale.reshape(shape)
    call.context.constants[call.output] = as_float(real)


def _scale(call: Call, index: int) -> Array:
    return np.asarray(call.weights(index, "scales"), np.float64)


def _zero_point(call: Call, index: int) -> Array:
    return call.weights(index, "zero points") if call.has(index) else np.zeros(1, np.uint8)


def _point(call: Call, scale: Array, zero: Array) -> int:
    """Return the fractional bits that stand for scale and zero point; Refusal if none do."""
    name, first = call.name(0), float(scale.ravel()[0])
    bits = int(_text(call.attrs.get("bit_width", 8 * zero.dtype.itemsize)))
    if scale.size > 1 and not np.all(scale == first):
        found = f"{scale.size} different scales ({scale.min():g} to {scale.max():g})"
    elif first <= 0 or math.frexp(first)[0] != 0.5:
        found = f"scale {first:g}"
    elif bits != 8:
        found = f"{bits} bits"
    elif np.any(zero != (128 if zero.dtype == np.uint8 else 0)):
        found = f"zero point {zero.ravel()[0]} of {zero.dtype}"
    else:
        return 1 - math.frexp(first)[1]
    raise Refusal(
        f"tensor {name!r} has {found}, but the DPU needs 8 bits, one scale that is a power of two, "
        "and zero point 0 (int8) or 128 (uint8); quantize the float model instead, or with "
        "power-of-two scales"
    )


def _text(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value


def _point_of(call: Call) -> int | None:
    """Return the position of a computed tensor that has been quantized."""
    node = call.context.graph[call.value(0).node]
    while node.kind in ("reshape", "transpose"):
        node = call.context.graph[node.inputs["input"][0]]
    return node.fix_point if node.kind == "fix" else None


def _fix(call: Call, point: int, rounding: Rounding) -> None:
    """Quantize input 0 to 8 bits at ``point``."""
    context, name = call.context, call.name(0)
    constant = context.constants.get(name)
    if constant is None:
        value = call.value(0)
        shape = value.stored if value.flat is None else value.shape
        node = context.view(value.node, shape)
        call.bind(
            value.on(
                context.graph.add_fix(call.output, node, Quantization.power_of_two(point)).name
            )
        )
        return
    integers = numerics.quantize(constant, point, round_mode=rounding)
    context.constants[call.output] = as_float(numerics.dequantize(integers, point))
    context.points[call.output] = point
