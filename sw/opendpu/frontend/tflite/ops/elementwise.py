# SPDX-License-Identifier: Apache-2.0
"""Arithmetic of two or more tensors, comparisons, types."""

import tflite

from opendpu.frontend.channels_last import elementwise
from opendpu.frontend.channels_last.arithmetic import matrix
from opendpu.frontend.channels_last.axes import ordered
from opendpu.frontend.tflite.registry import Call, handles

_FUSING = {
    "ADD": ("Add", tflite.AddOptions), "SUB": ("Sub", tflite.SubOptions),
    "MUL": ("Mul", tflite.MulOptions), "DIV": ("Div", tflite.DivOptions),
}  # fmt: skip
_PLAIN = {
    "ADD_N": "Sum", "MAXIMUM": "Max", "MINIMUM": "Min", "POW": "Pow", "EQUAL": "Equal",
    "GREATER": "Greater", "GREATER_EQUAL": "GreaterOrEqual", "LESS": "Less",
    "LESS_EQUAL": "LessOrEqual", "LOGICAL_AND": "And", "LOGICAL_OR": "Or",
}  # fmt: skip


@handles(*_FUSING)
def fusing(call: Call) -> str:
    """Convert arithmetic that may have an activation in it."""
    op_type, kind = _FUSING[call.operator.kind]
    fused = call.options(kind).FusedActivationFunction()
    made = call.b.node(op_type, [call.input(0), call.input(1)], call.inner(fused))
    return call.activated(made, fused)


@handles(*_PLAIN)
def plain(call: Call) -> str:
    """Convert what ONNX has."""
    return call.node(_PLAIN[call.operator.kind], *call.inputs)


@handles("NOT_EQUAL")
def not_equal(call: Call) -> str:
    """Convert to its opposite's opposite."""
    return elementwise.not_equal(call.b, call.input(0), call.input(1), name=call.name)


@handles("SQUARED_DIFFERENCE")
def squared_difference(call: Call) -> str:
    """Convert to a difference times itself."""
    return elementwise.squared_difference(call.b, call.input(0), call.input(1), name=call.name)


@handles("FLOOR_DIV")
def floor_div(call: Call) -> str:
    """Round quotients down; integers through floats."""
    return elementwise.floor_div(call.b, call.input(0), call.input(1), name=call.name)


@handles("FLOOR_MOD")
def floor_mod(call: Call) -> str:
    """What is left has the divisor's sign."""
    return elementwise.floor_mod(call.b, call.input(0), call.input(1), name=call.name)


@handles("SELECT", "SELECT_V2")
def select(call: Call) -> str:
    """Convert to ``Where``."""
    return elementwise.select(
        call.b, call.input(0), call.input(1), call.input(2), by_rows=call.operator.kind == "SELECT",
        name=call.name,
    )  # fmt: skip


@handles("CAST")
def cast(call: Call) -> str:
    """The type is that of the result in the file."""
    return call.cast(call.x)


@handles("BATCH_MATMUL")
def batch_matmul(call: Call) -> str:
    """Products of matrices, either of which may be transposed."""
    given = call.options(tflite.BatchMatMulOptions)
    one = matrix(call.b, call.input(0), transpose=given.AdjX())
    other = matrix(call.b, call.input(1), transpose=given.AdjY())
    return call.node("MatMul", one, other)


@handles("TRANSPOSE")
def transpose(call: Call) -> str:
    """The second input is the order."""
    return ordered(call.b, call.x, tuple(call.integers(1, "orders")), call.name)
