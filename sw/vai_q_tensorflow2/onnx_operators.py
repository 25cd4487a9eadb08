# SPDX-License-Identifier: Apache-2.0
"""Operators that stay ONNX in our graphs, as operators of TensorFlow.

Values are tensors, or arrays where they are known. Sizes of the batch are 1 in the models and
anything in TensorFlow.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from opendpu.frontend.tensorflow.runtime import tf
from opendpu.ir import Node
from opendpu.ops.foreign import DEFAULT_DOMAINS, parsed
from opendpu_arch.errors import UnsupportedError

Tensor = Any
Value = Any
"""A tensor, an array, or none for an input that is left out."""
Attributes = Mapping[str, Any]
Handler = Callable[[Sequence[Value], Attributes], Value]
_CONSTANT = "Constant"


def translate_call(node: Node, inputs: Sequence[Tensor], name: str | None) -> Tensor:
    """Return the result of an op of kind ``onnx``.

    Parameters
    ----------
    node
        The op.
    inputs
        Tensors of its inputs.
    name
        That its operator gets; none for any.

    Raises
    ------
    UnsupportedError
        An operator that has no form in TensorFlow here.
    """
    model = parsed(node.attrs["model"])
    known: dict[str, Value] = {"": None}
    known |= {item.name: numpy_helper.to_array(item) for item in model.graph.initializer}
    known |= {item.name: given for item, given in zip(model.graph.input, inputs, strict=True)}
    for item in model.graph.node:
        known[item.output[0]] = _computed(node, item, known)
    result = known[model.graph.output[int(node.attrs["output"])].name]
    return tf.identity(tf.cast(result, node.type.dtype), name=name)


def _computed(node: Node, item: onnx.NodeProto, known: Mapping[str, Value]) -> Value:
    handler = _HANDLERS.get(item.op_type) if item.domain in DEFAULT_DOMAINS else None
    attributes = {a.name: helper.get_attribute_value(a) for a in item.attribute}
    if item.op_type == _CONSTANT and isinstance(attributes.get("value"), onnx.TensorProto):
        return numpy_helper.to_array(attributes["value"])
    if handler is None or len([name for name in item.output if name]) > 1:
        raise UnsupportedError(
            f"op {node.name!r}, {item.op_type} of ONNX, has no form in TensorFlow here; leave "
            "it out of the quantized part, or use opendpu quantize"
        )
    return handler([known[name] for name in item.input], attributes)


def _plain(function: Callable[..., Tensor]) -> Handler:
    """Return the handler of a function of all inputs."""
    return lambda x, attributes: function(*x)


def _folded(function: Callable[[Value, Value], Tensor]) -> Handler:
    """Return the handler of a function of two tensors, applied from the left on."""

    def handle(x: Sequence[Value], attributes: Attributes) -> Tensor:
        made = x[0]
        for other in x[1:]:
            made = function(made, other)
        return made

    return handle


def _axes(x: Sequence[Value], attributes: Attributes, default: Any = None) -> Any:
    """Return axes: the second input, of older operator sets an attribute."""
    found = x[1] if len(x) > 1 and x[1] is not None else attributes.get("axes")
    return default if found is None else [int(axis) for axis in np.ravel(found)]


def _reduction(function: str, before: Callable[[Value], Value] = lambda x: x) -> Handler:
    def handle(x: Sequence[Value], attributes: Attributes) -> Tensor:
        keep = bool(attributes.get("keepdims", 1))
        return getattr(tf, function)(before(x[0]), _axes(x, attributes), keepdims=keep)

    return handle


def _clip(x: Sequence[Value], attributes: Attributes) -> Tensor:
    low, high = ([*x[1:], None, None])[:2]
    low = attributes.get("min") if low is None else low
    high = attributes.get("max") if high is None else high
    made = x[0] if low is None else tf.maximum(x[0], low)
    return made if high is None else tf.minimum(made, high)


def _softmax(function: Callable[..., Tensor]) -> Handler:
    return lambda x, attributes: function(x[0], int(attributes.get("axis", -1)))


def _reshape(x: Sequence[Value], attributes: Attributes) -> Tensor:
    """Keep the batch, which may be any, in front."""
    sizes = [int(size) for size in x[1]]
    if sizes and sizes[0] == 1 and -1 not in sizes:
        sizes[0] = -1
    return tf.reshape(x[0], [x[0].shape[i] if n == 0 else n for i, n in enumerate(sizes)])


def _expand(x: Sequence[Value], attributes: Attributes) -> Tensor:
    return tf.broadcast_to(x[0], tf.broadcast_dynamic_shape(tf.shape(x[0]), tf.cast(x[1], "int32")))


def _unsqueeze(x: Sequence[Value], attributes: Attributes) -> Tensor:
    made, axes = x[0], _axes(x, attributes)
    rank = len(made.shape) + len(axes)
    for axis in sorted(axis % rank for axis in axes):
        made = tf.expand_dims(made, axis)
    return made


def _slice(x: Sequence[Value], attributes: Attributes) -> Tensor:
    starts, ends = (np.ravel(x[i] if len(x) > 1 else attributes[n]).astype(int).tolist()
                    for i, n in ((1, "starts"), (2, "ends")))  # fmt: skip
    axes = x[3] if len(x) > 3 else attributes.get("axes")
    steps = np.ravel(x[4]).astype(int).tolist() if len(x) > 4 else [1] * len(starts)
    parts = [slice(None)] * len(x[0].shape)
    places = range(len(starts)) if axes is None else np.ravel(axes).astype(int).tolist()
    for axis, start, end, step in zip(places, starts, ends, steps, strict=True):
        size = int(x[0].shape[axis] or 1)
        first, last, _ = slice(start, end, step).indices(size)
        parts[axis] = slice(first, None if last < 0 else last, step)
    return x[0][tuple(parts)]


def _gather(x: Sequence[Value], attributes: Attributes) -> Tensor:
    return tf.gather(x[0], tf.cast(x[1], tf.int32), axis=int(attributes.get("axis", 0)))


def _arg(function: Callable[..., Tensor]) -> Handler:
    def handle(x: Sequence[Value], attributes: Attributes) -> Tensor:
        axis = int(attributes.get("axis", 0))
        found = function(x[0], axis, output_type=tf.int64)
        return tf.expand_dims(found, axis) if attributes.get("keepdims", 1) else found

    return handle


def _gelu(x: Sequence[Value], attributes: Attributes) -> Tensor:
    return tf.nn.gelu(x[0], approximate=attributes.get("approximate", b"none") == b"tanh")


def _gemm(x: Sequence[Value], attributes: Attributes) -> Tensor:
    a, b = (tf.transpose(m) if attributes.get(f"trans{n}") else m for m, n in zip(x, "AB"))  # noqa: B905
    made = attributes.get("alpha", 1.0) * tf.matmul(a, b)
    return made if len(x) < 3 else made + attributes.get("beta", 1.0) * x[2]


def _layer_norm(x: Sequence[Value], attributes: Attributes) -> Tensor:
    axes = list(range(int(attributes.get("axis", -1)) % len(x[0].shape), len(x[0].shape)))
    mean, variance = tf.nn.moments(x[0], axes, keepdims=True)
    bias = x[2] if len(x) > 2 else None
    return tf.nn.batch_normalization(
        x[0], mean, variance, bias, x[1], attributes.get("epsilon", 1e-5)
    )


def _cast(x: Sequence[Value], attributes: Attributes) -> Tensor:
    return tf.cast(x[0], helper.tensor_dtype_to_np_dtype(attributes["to"]))


_HANDLERS: dict[str, Handler] = {
    **{name: _plain(getattr(tf.math, own)) for name, own in {
        "Abs": "abs", "Acos": "acos", "Acosh": "acosh", "Asin": "asin", "Asinh": "asinh",
        "Atan": "atan", "Atanh": "atanh", "Ceil": "ceil", "Cos": "cos", "Cosh": "cosh",
        "Equal": "equal", "Erf": "erf", "Exp": "exp", "Floor": "floor", "Greater": "greater",
        "GreaterOrEqual": "greater_equal", "IsInf": "is_inf", "IsNaN": "is_nan", "Less": "less",
        "LessOrEqual": "less_equal", "Log": "log", "Neg": "negative", "Not": "logical_not",
        "Pow": "pow", "Reciprocal": "reciprocal", "Round": "rint", "Sigmoid": "sigmoid",
        "Sign": "sign", "Sin": "sin", "Sinh": "sinh", "Softplus": "softplus", "Sqrt": "sqrt",
        "Tan": "tan", "Tanh": "tanh",
    }.items()},
    **{name: _folded(function) for name, function in {
        "Add": tf.add, "Sub": tf.subtract, "Mul": tf.multiply, "Div": tf.divide, "Sum": tf.add,
        "Max": tf.maximum, "Min": tf.minimum, "And": tf.logical_and, "Or": tf.logical_or,
    }.items()},
    **{f"Reduce{name}": _reduction(f"reduce_{name.lower()}")
       for name in ("Max", "Mean", "Min", "Prod", "Sum")},
    "ReduceL1": _reduction("reduce_sum", tf.abs),
    "ReduceL2": lambda x, a: tf.sqrt(_reduction("reduce_sum", tf.square)(x, a)),
    "ReduceSumSquare": _reduction("reduce_sum", tf.square),
    "ArgMax": _arg(tf.argmax), "ArgMin": _arg(tf.argmin),
    "Cast": _cast, "Clip": _clip, "Expand": _expand, "Gather": _gather, "Gelu": _gelu,
    "Gemm": _gemm, "Identity": lambda x, a: x[0], "LayerNormalization": _layer_norm,
    "LeakyRelu": lambda x, a: tf.nn.leaky_relu(x[0], a.get("alpha", 0.01)),
    "Elu": _plain(tf.nn.elu), "Relu": _plain(tf.nn.relu), "Selu": _plain(tf.nn.selu),
    "Softsign": _plain(tf.nn.softsign), "MatMul": _plain(tf.matmul), "Where": _plain(tf.where),
    "LogSoftmax": _softmax(tf.nn.log_softmax), "Softmax": _softmax(tf.nn.softmax),
    "Concat": lambda x, a: tf.concat(list(x), a["axis"]),
    "Einsum": lambda x, a: tf.einsum(a["equation"].decode(), *x),
    "Reshape": _reshape, "Slice": _slice, "Unsqueeze": _unsqueeze,
    "Squeeze": lambda x, a: tf.squeeze(x[0], _axes(x, a)),
    "Tile": lambda x, a: tf.tile(x[0], np.asarray(x[1], np.int32)),
    "Transpose": lambda x, a: tf.transpose(x[0], a.get("perm")),
}  # fmt: skip
"""By operator of ONNX's own domain."""
