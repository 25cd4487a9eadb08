# SPDX-License-Identifier: Apache-2.0
"""Elementwise functions of one tensor, softmax, and nodes that change nothing."""

import math

import numpy as np
from onnx import TensorProto

from opendpu.frontend.context import Call
from opendpu.frontend.layout import Value
from opendpu.frontend.ops.convolution import scale
from opendpu.frontend.ops.quantization import clip_integers, clips_integers
from opendpu.frontend.ops.registry import Layout, handles
from opendpu.frontend.refusal import Refusal
from opendpu.frontend.single_node import tensor_dtype
from opendpu.frontend.source import as_float

_SIMPLE = {
    "Relu": "relu",
    "HardSwish": "hard-swish",
    "Sigmoid": "sigmoid",
    "Tanh": "tanh",
    "Exp": "exp",
    "Neg": "neg",
    "Mish": "mish",
}


@handles(*_SIMPLE)
def simple(call: Call) -> None:
    """Convert functions that XIR has under another name."""
    call.elementwise(_SIMPLE[call.proto.op_type])


@handles("Swish")
def swish(call: Call) -> None:
    """Convert to ``swish``; ``x * sigmoid(alpha * x)`` with another alpha to its parts."""
    alpha = float(call.attrs.get("alpha", 1.0))
    if alpha == 1:
        call.elementwise("swish")
        return
    value = call.context.straight(call.value(0))
    node = call.context.view(value.node, value.stored)
    shape = call.context.graph[node].shape
    channels = np.ones(shape[-1])
    inner = scale(call, node, alpha * channels, 0 * channels)
    gate = call.context.emit(f"{call.output}_gate", "sigmoid", shape, {"input": [inner]})
    call.bind(value.on(call.context.emit(call.output, "mul", shape, {"input": [node, gate]})))


@handles("Clip")
def clip(call: Call) -> None:
    """Convert to ``relu`` or ``relu6`` where it is one of these, else to ``max`` and ``min``."""
    if clips_integers(call.context, call.proto):
        clip_integers(call)
        return
    low, high = (
        call.attrs.get(key, None)
        if key in call.attrs or not call.has(index)
        else float(call.weights(index, key).reshape(()))
        for index, key in ((1, "min"), (2, "max"))
    )
    high = math.inf if high is None or high > 1e30 else high
    low = -math.inf if low is None or low < -1e30 else low
    if low == 0 and high in (6.0, math.inf):
        call.elementwise("relu6" if high == 6.0 else "relu")
        return
    value = call.value(0)
    for kind, bound in (("max", low), ("min", high)):
        if math.isfinite(bound):
            shape = value.stored if value.flat is None else value.shape
            limit = call.context.const(f"{call.output}_{kind}", np.full(1, bound))
            inputs = {"input": [call.context.view(value.node, shape), limit]}
            value = value.on(call.context.emit(call.output, kind, shape, inputs))
    call.bind(value)


@handles("LeakyRelu")
def leaky_relu(call: Call) -> None:
    """Convert to ``leaky-relu``."""
    _leak(call, float(call.attrs.get("alpha", 0.01)))


def _leak(call: Call, slope: float) -> None:
    if not math.isfinite(slope):
        raise Refusal(f"the slope is {slope}, but must be finite")
    call.elementwise("leaky-relu", {"alpha": slope})


@handles("PRelu", layout=Layout.SPATIAL)
def prelu(call: Call) -> None:
    """Convert to ``prelu`` with one slope a channel, or to ``leaky-relu`` with one for all."""
    slope = as_float(call.weights(1, "slopes"))
    if slope.size == 1:
        _leak(call, float(slope.reshape(())))
        return
    value = call.context.straight(call.value(0))
    channel = _slope_axis(value, slope.shape)
    if channel is None:
        raise Refusal(
            f"slopes have shape {list(slope.shape)} on an input of shape {list(value.shape)}, but "
            "must be one a channel"
        )
    others = (axis for axis in range(len(value.shape)) if axis != channel)
    order = value.perm if value.perm[-1] == channel else (*others, channel)
    batch, *space, channels = (value.shape[axis] for axis in order)
    width = space[-1] if space else 1
    shape = (batch, math.prod(space[:-1]), width, channels)
    inputs = {
        "input": [call.context.view(call.context.ordered(value, order), shape)],
        "weight": [call.parameter(1, "slope", slope.ravel())],
    }
    name = call.context.emit(call.output, "prelu", shape, inputs)
    call.bind(Value(name, value.shape, order))


def _slope_axis(value: Value, slopes: tuple[int, ...]) -> int | None:
    """Return the axis along which slopes differ, if it is the only one and holds channels.

    That is axis 1 as ONNX has it, or the last one of data that is stored that way.
    """
    shape = (1,) * (len(value.shape) - len(slopes)) + slopes
    axes = [axis for axis, size in enumerate(shape) if size != 1]
    if len(shape) < 2 or len(shape) != len(value.shape) or len(axes) != 1:
        return None
    (axis,) = axes
    natural = axis in (1, value.perm[-1]) and axis > 0
    return axis if natural and shape[axis] == value.shape[axis] else None


@handles("HardSigmoid")
def hard_sigmoid(call: Call) -> None:
    """Convert to the hard-sigmoid that the DPU knows, ``relu6(x + 3) / 6``, behind a ``scale``.

    ``clip(a * x + b, 0, 1)`` is that of ``6 * a * x + 6 * b - 3``.
    """
    alpha, beta = float(call.attrs.get("alpha", 0.2)), float(call.attrs.get("beta", 0.5))
    if math.isclose(alpha, 1 / 6, rel_tol=1e-4) and math.isclose(beta, 0.5, rel_tol=1e-4):
        call.elementwise("hard-sigmoid")
        return
    value = call.context.straight(call.value(0))
    node = call.context.view(value.node, value.stored)
    channels = np.ones(call.context.graph[node].shape[-1])
    inner = scale(call, node, channels * 6 * alpha, channels * (6 * beta - 3))
    shape = call.context.graph[inner].shape
    name = call.context.emit(call.output, "hard-sigmoid", shape, {"input": [inner]})
    call.bind(value.on(name))


@handles("Elu")
def elu(call: Call) -> None:
    """Convert to ``elu``."""
    call.elementwise("elu", {"alpha": float(call.attrs.get("alpha", 1.0))})


@handles("Gelu")
def gelu(call: Call) -> None:
    """Convert the exact form to ``gelu``."""
    if call.attrs.get("approximate", "none") != "none":
        raise Refusal("the tanh approximation is not supported")
    call.elementwise("gelu")


@handles("Softmax")
def softmax(call: Call) -> None:
    """Convert to ``softmax`` over one axis; of one element, which is no batch, it is 1."""
    value = call.context.straight(call.value(0))
    rank = len(value.shape)
    axis = int(call.attrs.get("axis", 1 if call.context.opset < 13 else -1)) % rank
    if call.context.opset < 13 and math.prod(value.shape[axis:]) != value.shape[axis]:
        raise Refusal(
            f"before operator set 13 softmax over axis {axis} of "
            f"{list(value.shape)} means several axes, which is not supported"
        )
    if axis > 0 and value.shape[axis] == 1:
        call.context.constants[call.output] = np.ones(value.shape, np.float32)
        return
    node = call.context.view(value.node, value.stored)
    name = call.context.emit(
        call.output, "softmax", value.stored, {"input": [node]}, {"axis": value.perm.index(axis)}
    )
    call.bind(value.on(name))


@handles("Identity", "Dropout", layout=Layout.NEUTRAL, keeps_grid=True)
def identity(call: Call) -> None:
    """Bind the output to the input; inference-time dropout changes nothing."""
    if call.proto.op_type == "Dropout" and call.has(2) and bool(call.weights(2, "mode").item()):
        raise Refusal("training mode is not supported; export the model for inference")
    call.bind(call.value(0))


@handles("Cast", any_dtype=True)
def cast(call: Call) -> None:
    """Convert to ``cast``; one to the type that the tensor has changes nothing."""
    kind = int(call.attrs["to"])
    wanted = tensor_dtype(kind)
    if wanted is None or wanted.kind == "b":
        raise Refusal(f"XIR has no type {TensorProto.DataType.Name(kind)}")
    value = call.value(0)
    if wanted == call.context.graph[value.node].type.dtype:
        call.bind(value)
    else:
        call.elementwise("cast", {}, wanted)


@handles("Pow")
def power(call: Call) -> None:
    """Convert squares to a product."""
    exponent = call.weights(1, "exponents")
    if exponent.size != 1 or not np.allclose(exponent, 2.0):
        raise Refusal("only the exponent 2 is supported")
    value = call.context.straight(call.value(0))
    node = call.context.view(value.node, value.stored)
    name = call.context.emit(call.output, "mul", value.stored, {"input": [node, node]})
    call.bind(value.on(name))
