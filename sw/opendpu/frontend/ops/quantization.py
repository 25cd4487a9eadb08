# SPDX-License-Identifier: Apache-2.0
"""Quantized models: pairs of QuantizeLinear and DequantizeLinear, AMD's variants, FixNeuron.

A pair on a computed tensor becomes a ``fix`` op; one on a constant puts the constant on its grid
and is remembered for the ``fix`` behind it. The DPU rounds halves up; ONNX rounds them to even.
Where any scale is allowed, for the extension ``scaled``, unsigned integers become signed ones with
another zero point.
"""

import dataclasses
import math
from typing import Any

import numpy as np
import onnx

from opendpu.frontend.context import Array, Call, Context
from opendpu.frontend.narrow_pairs import in_bytes
from opendpu.frontend.ops.registry import Layout, handles
from opendpu.frontend.refusal import Refusal
from opendpu.frontend.source import as_float
from opendpu.ir import Quantization, Rounding
from opendpu.ops.formats import fake_quantize, integers_of, real_numbers
from opendpu.ops.quantizing import BOTH, DEQUANTIZE, QUANTIZE, ROUNDINGS

_ROUNDING = {2: Rounding.DPU_ROUND, 3: Rounding.STD_ROUND}
"""Methods of NNDCT's operators; every other operator rounds halves to even."""
WIDTHS = (8, 32)
"""Bits that constants can have: weights and biases."""


@handles(*QUANTIZE, layout=Layout.NEUTRAL)
def quantize(call: Call) -> None:
    """Convert to ``fix``, or put a constant on its grid."""
    nndct = call.proto.domain == "vai"
    scale, zero = (3, 4) if nndct else (1, 2)
    method = int(call.weights(5, "method").ravel()[0]) if nndct and call.has(5) else 0
    grid = _grid(call, _scale(call, scale), _zero_point(call, zero))
    _fix(call, grid, _ROUNDING.get(method, Rounding.PY3_ROUND))


@handles(*BOTH, layout=Layout.NEUTRAL)
def fix_neuron(call: Call) -> None:
    """Convert to ``fix``; NNDCT's form has the factor 1 / scale as its third input."""
    if call.proto.op_type == "FixNeuron":
        grid = _grid(call, _scale(call, 1), _zero_point(call, 2))
        _fix(call, grid, Rounding.PY3_ROUND)
        return
    method = int(call.weights(3, "method").ravel()[0]) if call.has(3) else 2
    grid = _grid(call, 1 / _scale(call, 2), np.zeros(1, np.int8))
    _fix(call, grid, _ROUNDING.get(method, Rounding.PY3_ROUND))


@handles(*DEQUANTIZE, layout=Layout.NEUTRAL)
def dequantize(call: Call) -> None:
    """Bind the output to the ``fix`` before, or to a constant's real values."""
    context, name = call.context, call.name(0)
    scale, zero = _scale(call, 1), _zero_point(call, 2)
    stored = context.constants.get(name)
    if stored is not None and name not in context.grids:
        _stored_constant(call, stored, scale, zero)
        return
    grid = _grid(call, scale, zero)
    before = context.grids.get(name) if stored is not None else _grid_of(call)
    if before is None or dataclasses.replace(before, rounding=grid.rounding) != grid:
        found = "nothing" if before is None else _text_of(before)
        raise Refusal(
            f"tensor {name!r} is quantized with {found}, but dequantized with {_text_of(grid)}; "
            "both must be the same"
        )
    if stored is not None:
        context.constants[call.output], context.grids[call.output] = stored, before
    else:
        call.bind(call.value(0))


@handles(*ROUNDINGS, layout=Layout.NEUTRAL)
def rounding(call: Call) -> None:
    """Bind the output to the input: the DPU rounds so by itself."""
    name = call.name(0)
    if name in call.context.constants:
        call.context.constants[call.output] = call.context.constants[name]
        if name in call.context.grids:
            call.context.grids[call.output] = call.context.grids[name]
    else:
        call.bind(call.value(0))


def clips_integers(context: Context, proto: onnx.NodeProto) -> bool:
    """Tell whether a node is Clip between the two nodes of a pair, with both bounds."""
    if proto.op_type != "Clip" or len(proto.input) != 3 or not all(proto.input):
        return False
    name = proto.input[0]
    if name in context.constants:
        return name in context.grids
    integers = context.source.dtype(name) in (np.int8, np.uint8)
    return integers and name in context.values and _grid_at(context, name) is not None


def clip_integers(call: Call) -> None:
    """Bind what Clip leaves of integers, between the two nodes of a pair.

    So quantizers write integers of fewer bits, or without the least one.
    """
    context, name = call.context, call.name(0)
    stored = name in context.constants
    grid = context.grids[name] if stored else _grid_of(call)
    assert grid is not None  # clips_integers
    bounds = [call.weights(index, "bounds") for index in (1, 2)]
    moved = 1 << (grid.bits - 1) if bounds[0].dtype.kind == "u" else 0
    low, high = (int(bound.reshape(())) - moved for bound in bounds)
    if stored:
        integers = np.clip(integers_of(context.constants[name], grid), low, high)
        context.constants[call.output] = real_numbers(integers, grid)
        context.grids[call.output] = grid
        return
    if (low, high) == grid.limits:
        call.bind(call.value(0))
        return
    value = call.value(0)
    for kind, bound in zip(("max", "min"), real_numbers(np.array([low, high]), grid), strict=True):
        shape = value.stored if value.flat is None else value.shape
        limit = context.const(f"{call.output}_{kind}", np.full(1, bound))
        inputs = {"input": [context.view(value.node, shape), limit]}
        value = value.on(context.emit(f"{call.output}_{kind}imum", kind, shape, inputs))
    call.bind(value.on(context.graph.add_fix(call.output, value.node, grid).name))


def _stored_constant(call: Call, stored: Array, scale: Array, zero: Array) -> None:
    """Take over a constant that the model stores in integers."""
    stored, zero = in_bytes(stored), in_bytes(zero)
    if stored.dtype.kind not in "iu":
        raise Refusal(f"constant {call.name(0)!r} has type {stored.dtype}, but must be integer")
    context = call.context
    if scale.ndim > 1:  # a scale a block, which no layer has
        context.constants[call.output] = _of_blocks(call, stored, scale, zero)
        return
    if context.any_scale:
        context.grids[call.output] = _grid(call, scale, zero, constant=True)
        if stored.dtype.itemsize > 1:
            context.integers[call.output] = stored
    elif stored.dtype.itemsize == 1 and context.source.quantized:
        context.grids[call.output] = _grid(call, scale, zero)
    # Biases of 32 bits are quantized to 8 later, and float models may store any weights so.
    axis = int(call.attrs.get("axis", 1)) if stored.ndim > 1 else 0
    shape = [1] * stored.ndim

    def spread(numbers: Array) -> Array:
        made = list(shape)
        if numbers.size > 1:
            made[axis] = numbers.size
        return numbers.astype(np.float64).reshape(made)

    context.constants[call.output] = as_float((stored - spread(zero)) * spread(scale))


def _of_blocks(call: Call, stored: Array, scale: Array, zero: Array) -> Array:
    """Return the real numbers of a constant with a scale for each block along an axis."""
    axis, size = int(call.attrs.get("axis", 1)), int(call.attrs.get("block_size", 0))
    count = stored.shape[axis]
    if size < 1 or scale.shape[axis] != -(-count // size):
        raise Refusal(
            f"constant {call.name(0)!r} has scales of shape {list(scale.shape)}, but blocks of "
            f"{size} along axis {axis} of {list(stored.shape)}"
        )
    place = np.arange(count) // size
    zero = np.broadcast_to(zero.astype(np.float64), scale.shape)
    real = stored.astype(np.float64) - zero.take(place, axis)
    return as_float(real * scale.take(place, axis))


def _scale(call: Call, index: int) -> Array:
    return np.asarray(call.weights(index, "scales"), np.float64)


def _zero_point(call: Call, index: int) -> Array:
    """Return the zero points; zero of the type of the integers if there is none."""
    if call.has(index):
        return in_bytes(call.weights(index, "zero points"))
    name = call.name(0)
    stored = call.context.constants.get(name)
    dtype = call.context.source.dtype(name) if stored is None else in_bytes(stored).dtype
    return np.zeros(1, dtype if dtype is not None and dtype.kind in "iu" else np.uint8)


def _grid(call: Call, scale: Array, zero: Array, *, constant: bool = False) -> Quantization:
    """Return what scale and zero point mean; Refusal if they are not allowed."""
    name, first = call.name(0), float(scale.ravel()[0])
    bits = int(_text(call.attrs.get("bit_width", 8 * zero.dtype.itemsize)))
    if call.context.any_scale:
        return _any_grid(call, scale, zero, WIDTHS if constant else (8,))
    if scale.size > 1 and not np.all(scale == first):
        found = f"{scale.size} different scales ({scale.min():g} to {scale.max():g})"
    elif first <= 0 or math.frexp(first)[0] != 0.5:
        found = f"scale {first:g}"
    elif bits != 8:
        found = f"{bits} bits"
    elif np.any(zero != (128 if zero.dtype == np.uint8 else 0)):
        found = f"zero point {zero.ravel()[0]} of {zero.dtype}"
    else:
        return Quantization.power_of_two(1 - math.frexp(first)[1])
    raise Refusal(
        f"tensor {name!r} has {found}, but the DPU needs 8 bits, one scale that is a power of two, "
        "and zero point 0 (int8) or 128 (uint8); quantize the float model instead, or with "
        "power-of-two scales, or change the scales (--requantize), or compile for a target with "
        "the extension scaled"
    )


def _any_grid(call: Call, scale: Array, zero: Array, widths: tuple[int, ...]) -> Quantization:
    """Return scale and zero point as they are, of integers with a sign."""
    name, bits = call.name(0), 8 * zero.dtype.itemsize
    if zero.dtype.kind not in "iu" or bits not in widths or not np.all(scale > 0):
        raise Refusal(
            f"tensor {name!r} is quantized to {zero.dtype}, smallest scale {scale.min():g}, but "
            f"must be of {' or '.join(map(str, widths))} bits with scales above zero"
        )
    moved = 1 << (bits - 1) if zero.dtype.kind == "u" else 0
    zeros = [int(point) - moved for point in zero.ravel()]
    if scale.size == 1:
        return Quantization((float(scale.ravel()[0]),), (zeros[0],), bits=bits)
    axis, rank = int(call.attrs.get("axis", 1)), len(call.context.shape_of(name))
    return Quantization(
        tuple(float(one) for one in scale.ravel()), tuple(zeros) if any(zeros) else (0,),
        axis % rank if rank > 1 else 0, bits,
    )  # fmt: skip


def _text_of(grid: Quantization) -> str:
    """Return scale and zero point for a message."""
    if grid.is_power_of_two:
        return f"scale 2**{-grid.fix_point}"
    return f"scale {grid.scale[0]:g} and zero point {grid.zero_point[0]}"


def _text(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value


def _grid_of(call: Call) -> Quantization | None:
    """Return the quantization of a computed tensor that has been quantized."""
    return _grid_at(call.context, call.name(0))


def _grid_at(context: Context, name: str) -> Quantization | None:
    node = context.graph[context.values[name].node]
    while node.kind in ("reshape", "transpose"):
        node = context.graph[node.inputs["input"][0]]
    return node.quantization if node.kind == "fix" else None


def _fix(call: Call, grid: Quantization, rounding: Rounding) -> None:
    """Quantize input 0."""
    context, name = call.context, call.name(0)
    constant = context.constants.get(name)
    if not grid.is_power_of_two:
        grid = dataclasses.replace(grid, rounding=rounding)
    if constant is None:
        value = call.value(0)
        shape = value.stored if value.flat is None else value.shape
        node = context.view(value.node, shape)
        call.bind(value.on(context.graph.add_fix(call.output, node, grid).name))
        return
    exact = dataclasses.replace(grid, rounding=rounding)
    context.constants[call.output] = fake_quantize(as_float(constant), exact)
    context.grids[call.output] = grid
