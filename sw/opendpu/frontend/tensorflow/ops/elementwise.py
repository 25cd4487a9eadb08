# SPDX-License-Identifier: Apache-2.0
"""Arithmetic of two or more tensors, comparisons, selections."""

from opendpu.frontend.channels_last import elementwise
from opendpu.frontend.channels_last.arithmetic import prelu
from opendpu.frontend.tensorflow.graphdef import Node, split
from opendpu.frontend.tensorflow.registry import Call, handles

_PLAIN = {
    "Add": "Add", "AddN": "Sum", "Sub": "Sub", "Mul": "Mul", "RealDiv": "Div",
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
    return elementwise.not_equal(call.b, call.input(0), call.input(1), name=call.name)


@handles("SquaredDifference")
def squared_difference(call: Call) -> str:
    """Convert to a difference times itself."""
    return elementwise.squared_difference(call.b, call.input(0), call.input(1), name=call.name)


@handles("DivNoNan")
def div_no_nan(call: Call) -> str:
    """Quotients, and 0 where the divisor is 0."""
    return elementwise.div_no_nan(call.b, call.input(0), call.input(1), name=call.name)


@handles("FloorDiv")
def floor_div(call: Call) -> str:
    """Round quotients down; integers through floats."""
    return elementwise.floor_div(call.b, call.input(0), call.input(1), name=call.name)


@handles("FloorMod")
def floor_mod(call: Call) -> str:
    """What is left has the divisor's sign."""
    return elementwise.floor_mod(call.b, call.input(0), call.input(1), name=call.name)


@handles("Select", "SelectV2")
def select(call: Call) -> str:
    """Convert to ``Where``."""
    return elementwise.select(
        call.b, call.input(0), call.input(1), call.input(2), by_rows=call.node.op == "Select",
        name=call.name,
    )  # fmt: skip


@handles("Cast")
def cast(call: Call) -> str:
    """To the type that the node says."""
    return call.cast(call.x, "DstT")


@handles("Einsum")
def einsum(call: Call) -> str:
    """The equation is ONNX's."""
    return call.emit("Einsum", *call.inputs, equation=call.attr("equation"))
