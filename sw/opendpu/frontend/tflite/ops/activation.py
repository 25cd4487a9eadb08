# SPDX-License-Identifier: Apache-2.0
"""Functions of one tensor, and those with a parameter for each channel."""

import tflite

from opendpu.frontend.channels_last import arithmetic
from opendpu.frontend.refusal import Refusal
from opendpu.frontend.tflite.registry import Call, handles

_SIMPLE = {
    "ABS": "Abs", "CEIL": "Ceil", "COS": "Cos", "ELU": "Elu", "EXP": "Exp", "FLOOR": "Floor",
    "HARD_SWISH": "HardSwish", "LOG": "Log", "LOGICAL_NOT": "Not", "LOGISTIC": "Sigmoid",
    "NEG": "Neg", "RELU": "Relu", "ROUND": "Round", "SIGN": "Sign", "SIN": "Sin",
    "SQRT": "Sqrt", "TANH": "Tanh",
}  # fmt: skip


@handles(*_SIMPLE)
def simple(call: Call) -> str:
    """Convert functions that ONNX has."""
    return call.node(_SIMPLE[call.operator.kind], call.x)


@handles("RELU6")
def relu6(call: Call) -> str:
    """Limit to 0..6."""
    return arithmetic.clip(call.b, call.x, 0.0, 6.0, name=call.name)


@handles("RELU_N1_TO_1")
def relu_n1_to_1(call: Call) -> str:
    """Limit to -1..1."""
    return arithmetic.clip(call.b, call.x, -1.0, 1.0, name=call.name)


@handles("RELU_0_TO_1")
def relu_0_to_1(call: Call) -> str:
    """Limit to 0..1."""
    return arithmetic.clip(call.b, call.x, 0.0, 1.0, name=call.name)


@handles("LEAKY_RELU")
def leaky_relu(call: Call) -> str:
    """Convert to ``LeakyRelu``."""
    return call.node("LeakyRelu", call.x, alpha=call.options(tflite.LeakyReluOptions).Alpha())


@handles("PRELU")
def prelu(call: Call) -> str:
    """Slopes are broadcast."""
    return arithmetic.prelu(call.b, call.x, call.input(1), name=call.name)


@handles("GELU")
def gelu(call: Call) -> str:
    """Exact, or with tanh."""
    rough = bool(call.options(tflite.GeluOptions).Approximate())
    return arithmetic.gelu(call.b, call.x, approximate=rough, name=call.name)


@handles("RSQRT")
def rsqrt(call: Call) -> str:
    """Convert to ``1 / sqrt``."""
    return call.node("Reciprocal", call.b.node("Sqrt", [call.x]))


@handles("SQUARE")
def square(call: Call) -> str:
    """Convert to a product."""
    return call.node("Mul", call.x, call.x)


@handles("SOFTMAX")
def softmax(call: Call) -> str:
    """Over the last axis, of the input times ``beta``."""
    b, beta = call.b, float(call.options(tflite.SoftmaxOptions).Beta())
    x = call.x if beta == 1 else b.node("Mul", [call.x, arithmetic.scalar(b, beta, call.x)])
    return call.node("Softmax", x, axis=-1)


@handles("LOG_SOFTMAX")
def log_softmax(call: Call) -> str:
    """Over the last axis."""
    return call.node("LogSoftmax", call.x, axis=-1)


@handles("L2_NORMALIZATION")
def l2_normalization(call: Call) -> str:
    """Along the last axis; lengths are at least 1e-6."""
    if call.options(tflite.L2NormOptions).FusedActivationFunction():
        raise Refusal("an activation in it is not supported")
    return arithmetic.l2_normalize(call.b, call.x, 1e-12, name=call.name)


@handles("LOCAL_RESPONSE_NORMALIZATION")
def local_response_normalization(call: Call) -> str:
    """Over neighbouring channels; ONNX divides alpha by their number."""
    given = call.options(tflite.LocalResponseNormalizationOptions)
    size = 2 * given.Radius() + 1
    return arithmetic.local_response(
        call.b, call.x, size, given.Bias(), given.Alpha(), given.Beta(), name=call.name
    )
