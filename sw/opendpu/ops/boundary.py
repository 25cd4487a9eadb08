# SPDX-License-Identifier: Apache-2.0
"""Inputs, constants, and the borders between real numbers and integers."""

import numpy as np
from onnx import TensorProto, helper

from opendpu.ir import Node
from opendpu.ops.formats import (
    BLOCK_FORMATS,
    are_dpu_bytes,
    emit_dpu_bytes,
    emit_fake_quantize,
    emit_integers,
    emit_real,
)
from opendpu.ops.onnx_builder import OnnxBuilder
from opendpu.ops.operator import Operator, register


def _source(builder: OnnxBuilder, node: Node) -> tuple[str, bool]:
    """Return an op's only input, in the order of axes that it has, and whether that is NCHW."""
    (name,) = node.inputs["input"]
    first = builder.is_first(name)
    return (builder.channels_first(name) if first else builder.plain(name)), first


def _fix(builder: OnnxBuilder, node: Node) -> None:
    if builder.constant(node.name) is not None:
        return
    value, first = _source(builder, node)
    if are_dpu_bytes(node.quantization):
        made = emit_dpu_bytes(builder, value, node.quantization)
        builder.bind(node, made, channels_first=first)
        builder.rounds = True
        return
    if first and node.quantization.number_format in BLOCK_FORMATS:
        value, first = builder.plain(node.inputs["input"][0]), False
    made = emit_fake_quantize(
        builder, value, node.quantization, len(node.shape), channels_first=first
    )
    builder.bind(node, made, channels_first=first)


def _float2fix(builder: OnnxBuilder, node: Node) -> None:
    value, first = _source(builder, node)
    integers = emit_integers(builder, value, node.quantization)
    zero = builder.initializer(np.array(0, np.float32))
    made = builder.op("Where", [builder.op("IsNaN", [integers]), zero, integers])
    builder.bind(node, made, channels_first=first)


def _fix2float(builder: OnnxBuilder, node: Node) -> None:
    if builder.constant(node.name) is not None:
        return
    value, first = _source(builder, node)
    value = builder.op("Cast", [value], to=TensorProto.FLOAT)
    made = emit_real(builder, value, node.quantization, len(node.shape), channels_first=first)
    builder.bind(node, made, channels_first=first)


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
