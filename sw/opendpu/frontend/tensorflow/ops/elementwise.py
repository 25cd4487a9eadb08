# SPDX-License-Identifier: Apache-2.0
"""Arithmetic of two or more tensors, comparisons, selections."""

import onnx

from opendpu.frontend.channels_last.arithmetic import prelu
from opendpu.frontend.channels_last.axes import known_shape
from opendpu.frontend.tensorflow.graphdef import Node, split
from opendpu.frontend.tensorflow.registry import Call, handles

_PLAIN = {
    "Add": "Add", "AddN": "Sum", "Sub": "Sub", "Mul": "Mul", "RealDiv": "Div", "DivNoNan": "Div",
    "Maximum": "Max", "Minimum": "Min", "Pow": "Pow", "Equal": "Equal", "Greater": "Greater",
    "GreaterEqual": "GreaterOrEqual", "Less": "Less", "LessEqual": "LessOrEqual",
    "LogicalAnd": "And", "LogicalOr": "Or", "TruncateDiv": "Div", "Div": "Div",
}  # fmt: skip


@handles(*_PLAIN)
def plain(call: Call) -> str:
    """Convert what ONNX has."""
    return call.emit(_PLAIN[call.node.op], *call.inputs)


@handles("AddV2")
def add(call: Call) -> str:
    """Convert to ``Add``; what Keras makes of PReLU to that."""
    found = _prelu(call)
    return found if found is not None else call.emit("Add", call.input(0), call.input(1))


def _prelu(call: Call) -> str | None:
    """Return ``relu(x) + slope * relu(-x)`` as one operator; the slope has changed its sign."""
    positive, product = call.producer(0), call.producer(1)
    if positive is None or product is None or (positive.op, product.op) != ("Relu", "Mul"):
        return None
    slope, negative = product.inputs
    inner = _node(call, negative)
    if inner is None or inner.op != "Relu":
        return None
    minus = _node(call, inner.inputs[0])
    if minus is None or minus.op != "Neg" or minus.inputs[0] != positive.inputs[0]:
        return None
    value = call.b.value(call.lookup(slope))
    if value is None:
        return None
    return prelu(
        call.b, call.lookup(positive.inputs[0]), call.b.constant(-value, f"{call.name}/slope"),
        name=call.name,
    )  # fmt: skip


def _node(call: Call, reference: str) -> Node | None:
    return call.nodes.get(split(reference)[0])


@handles("NotEqual")
def not_equal(call: Call) -> str:
    """Convert to its opposite's opposite."""
    return call.emit("Not", call.b.node("Equal", [call.input(0), call.input(1)]))


@handles("SquaredDifference")
def squared_difference(call: Call) -> str:
    """Convert to a difference times itself."""
    difference = call.b.node("Sub", [call.input(0), call.input(1)])
    return call.emit("Mul", difference, difference)


@handles("FloorDiv")
def floor_div(call: Call) -> str:
    """Round quotients down; integers through floats."""
    b, dtype = call.b, call.b.dtype(call.x)
    one, other = call.input(0), call.input(1)
    if dtype.kind == "f":
        return call.emit("Floor", b.node("Div", [one, other]))
    double = onnx.TensorProto.DOUBLE
    one, other = (b.node("Cast", [value], to=double) for value in (one, other))
    kind = onnx.helper.np_dtype_to_tensor_dtype(dtype)
    return call.emit("Cast", b.node("Floor", [b.node("Div", [one, other])]), to=kind)


@handles("FloorMod")
def floor_mod(call: Call) -> str:
    """What is left has the divisor's sign."""
    b, one, other = call.b, call.input(0), call.input(1)
    if b.dtype(one).kind != "f":
        return call.emit("Mod", one, other)
    whole = b.node("Floor", [b.node("Div", [one, other])])
    return call.emit("Sub", one, b.node("Mul", [whole, other]))


@handles("Select", "SelectV2")
def select(call: Call) -> str:
    """Convert to ``Where``."""
    b, condition = call.b, call.input(0)
    rank = len(known_shape(b, call.input(1)))
    if call.node.op == "Select" and len(known_shape(b, condition)) == 1 and rank > 1:
        condition = b.node("Unsqueeze", [condition, b.integers(*range(1, rank))])
    return call.emit("Where", condition, call.input(1), call.input(2))


@handles("Cast")
def cast(call: Call) -> str:
    """To the type that the node says."""
    return call.cast(call.x, "DstT")


@handles("Einsum")
def einsum(call: Call) -> str:
    """The equation is ONNX's."""
    return call.emit("Einsum", *call.inputs, equation=call.attr("equation"))
