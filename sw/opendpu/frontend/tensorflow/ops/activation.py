# SPDX-License-Identifier: Apache-2.0
"""Functions of one tensor."""

from opendpu.frontend.channels_last import arithmetic
from opendpu.frontend.tensorflow.registry import Call, handles

_SIMPLE = {
    "Abs": "Abs", "Acos": "Acos", "Asin": "Asin", "Atan": "Atan", "Ceil": "Ceil", "Cos": "Cos",
    "Cosh": "Cosh", "Elu": "Elu", "Erf": "Erf", "Exp": "Exp", "Floor": "Floor",
    "Inv": "Reciprocal", "IsNan": "IsNaN", "Log": "Log", "LogicalNot": "Not", "Neg": "Neg",
    "Reciprocal": "Reciprocal", "Relu": "Relu", "Rint": "Round", "Round": "Round",
    "Selu": "Selu", "Sigmoid": "Sigmoid", "Sign": "Sign", "Sin": "Sin", "Sinh": "Sinh",
    "Softplus": "Softplus", "Softsign": "Softsign", "Sqrt": "Sqrt", "Tan": "Tan", "Tanh": "Tanh",
}  # fmt: skip


@handles(*_SIMPLE)
def simple(call: Call) -> str:
    """Convert functions that ONNX has."""
    return call.emit(_SIMPLE[call.node.op], call.x)


@handles("Relu6")
def relu6(call: Call) -> str:
    """Limit to 0..6."""
    return arithmetic.clip(call.b, call.x, 0.0, 6.0, name=call.name)


@handles("ClipByValue")
def clip(call: Call) -> str:
    """Limit to computed bounds."""
    low = call.b.node("Max", [call.x, call.input(1)])
    return call.emit("Min", low, call.input(2))


@handles("LeakyRelu")
def leaky_relu(call: Call) -> str:
    """Convert to ``LeakyRelu``."""
    return call.emit("LeakyRelu", call.x, alpha=call.attr("alpha", 0.2))


@handles("Rsqrt")
def rsqrt(call: Call) -> str:
    """Convert to ``1 / sqrt``."""
    return call.emit("Reciprocal", call.b.node("Sqrt", [call.x]))


@handles("Square")
def square(call: Call) -> str:
    """Convert to a product."""
    return call.emit("Mul", call.x, call.x)


@handles("Log1p")
def log1p(call: Call) -> str:
    """Convert to the logarithm of a sum."""
    return call.emit("Log", call.b.node("Add", [call.x, arithmetic.scalar(call.b, 1, call.x)]))


@handles("Erfc")
def erfc(call: Call) -> str:
    """What ``erf`` lacks to 1."""
    return call.emit("Sub", arithmetic.scalar(call.b, 1, call.x), call.b.node("Erf", [call.x]))


@handles("Softmax", "LogSoftmax")
def softmax(call: Call) -> str:
    """Over the last axis."""
    return call.emit(call.node.op, call.x, axis=-1)
