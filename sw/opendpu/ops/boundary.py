# SPDX-License-Identifier: Apache-2.0
"""Inputs, constants, and the borders between real numbers and integers."""

import numpy as np
from onnx import TensorProto, helper

from opendpu.ir import Node, Rounding
from opendpu.ops.onnx_builder import OnnxBuilder
from opendpu.ops.operator import Operator, register


def _rounded(builder: OnnxBuilder, node: Node, value: str) -> str:
    """Return the integers, as float64, that real numbers become: scaled, rounded, saturated.

    In float64 nothing but the rounding that is meant rounds.
    """

    def wide(number: float) -> str:
        return builder.initializer(np.array(number, np.float64))

    found = node.quantization
    low, high = found.limits
    value = builder.op("Cast", [value], to=TensorProto.DOUBLE)
    value = builder.op("Mul", [value, wide(2.0**found.fix_point)])
    match found.rounding:
        case Rounding.DPU_ROUND:
            value = builder.op("Floor", [builder.op("Add", [value, wide(0.5)])])
        case Rounding.STD_ROUND:
            size = builder.op("Add", [builder.op("Abs", [value]), wide(0.5)])
            value = builder.op("Mul", [builder.op("Floor", [size]), builder.op("Sign", [value])])
        case Rounding.PY3_ROUND:
            value = builder.op("Round", [value])
    return builder.op("Clip", [value, wide(low), wide(high)])


def _source(builder: OnnxBuilder, node: Node) -> tuple[str, bool]:
    (name,) = node.inputs["input"]
    first = builder.is_first(name)
    return (builder.channels_first(name) if first else builder.plain(name)), first


def _fix(builder: OnnxBuilder, node: Node) -> None:
    if builder.constant(node.name) is not None:
        return
    value, first = _source(builder, node)
    scale = builder.initializer(np.array(2.0**-node.fix_point, np.float64))
    made = builder.op("Mul", [_rounded(builder, node, value), scale])
    made = builder.op("Cast", [made], to=TensorProto.FLOAT)
    builder.bind(node, made, channels_first=first)


def _float2fix(builder: OnnxBuilder, node: Node) -> None:
    value, first = _source(builder, node)
    made = builder.op("Cast", [_rounded(builder, node, value)], to=TensorProto.FLOAT)
    builder.bind(node, made, channels_first=first)


def _fix2float(builder: OnnxBuilder, node: Node) -> None:
    if builder.constant(node.name) is not None:
        return
    value, first = _source(builder, node)
    value = builder.op("Cast", [value], to=TensorProto.FLOAT)
    scale = builder.initializer(np.array(2.0**-node.fix_point, np.float32))
    builder.bind(node, builder.op("Mul", [value, scale]), channels_first=first)


def _constant(builder: OnnxBuilder, node: Node) -> None:
    """Add nothing: readers take the values."""


def _cast(builder: OnnxBuilder, node: Node) -> None:
    value, first = _source(builder, node)
    kind = helper.np_dtype_to_tensor_dtype(node.type.dtype)
    builder.bind(node, builder.op("Cast", [value], to=kind), channels_first=first)


register(
    Operator(kind="data"),
    Operator(kind="data-fix"),
    Operator(kind="const", emit=_constant),
    Operator(kind="const-fix", emit=_constant),
    Operator(kind="cast", emit=_cast),
    Operator(kind="fix", emit=_fix),
    Operator(kind="float2fix", emit=_float2fix),
    Operator(kind="fix2float", emit=_fix2float),
)

SOURCES = ("data", "data-fix")
"""Kinds of the inputs of a graph."""
CONSTANTS = ("const", "const-fix")
"""Kinds of constants."""
CONVERSIONS = ("fix2float", "float2fix")
"""Kinds on the border between integers and real numbers."""
