# SPDX-License-Identifier: Apache-2.0
"""Activations and normalizations as operators of TensorFlow.

Every function takes a node, the tensors of its inputs and the name that its result gets.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from opendpu.frontend.tensorflow.runtime import tf
from opendpu.ir import Graph, Node

Tensor = Any
Name = str | None
Given = Mapping[str, Sequence[Tensor]]
Emit = Callable[[Graph, Node, Given, Name], Tensor]


def unary(function: Callable[..., Tensor]) -> Emit:
    """Return the emitter of a function of one tensor."""
    return lambda graph, node, given, name: function(given["input"][0], name=name)


def _leaky(graph: Graph, node: Node, given: Given, name: Name) -> Tensor:
    return tf.nn.leaky_relu(given["input"][0], float(node.attrs["alpha"]), name=name)


def _prelu(graph: Graph, node: Node, given: Given, name: Name) -> Tensor:
    x, slope = given["input"][0], given["weight"][0]
    return tf.add(tf.nn.relu(x), slope * tf.minimum(x, 0.0), name=name)


def _hard_sigmoid(x: Tensor, name: Name) -> Tensor:
    return tf.multiply(tf.nn.relu6(x + 3.0), 1 / 6, name=name)


def _elu(graph: Graph, node: Node, given: Given, name: Name) -> Tensor:
    x, alpha = given["input"][0], float(node.attrs.get("alpha", 1.0))
    if alpha == 1.0:
        return tf.nn.elu(x, name=name)
    return tf.add(tf.nn.relu(x), alpha * tf.math.expm1(tf.minimum(x, 0.0)), name=name)


def _celu(graph: Graph, node: Node, given: Given, name: Name) -> Tensor:
    x, alpha = given["input"][0], float(node.attrs.get("alpha", 1.0))
    return tf.add(tf.nn.relu(x), alpha * tf.math.expm1(tf.minimum(x, 0.0) / alpha), name=name)


def _mish(x: Tensor, name: Name) -> Tensor:
    return tf.multiply(x, tf.tanh(tf.math.softplus(x)), name=name)


def _cast(graph: Graph, node: Node, given: Given, name: Name) -> Tensor:
    return tf.cast(given["input"][0], node.type.dtype, name=name)


def _scale(graph: Graph, node: Node, given: Given, name: Name) -> Tensor:
    """Emit ``input * scale + bias`` over one axis."""
    rank = len(node.shape)
    behind = [1] * (rank - 1 - int(node.attrs.get("axis", -1)) % rank)
    factor, *bias = (tf.reshape(value, [-1, *behind])
                     for arg in ("scale", "bias") for value in given.get(arg, ()))  # fmt: skip
    made = tf.multiply(given["input"][0], factor, name=None if bias else name)
    return tf.add(made, bias[0], name=name) if bias else made


def _batchnorm(graph: Graph, node: Node, given: Given, name: Name) -> Tensor:
    gamma, beta, mean, variance = (
        given[arg][0] for arg in ("gamma", "beta", "moving_mean", "moving_var")
    )
    return tf.nn.batch_normalization(
        given["input"][0], mean, variance, beta, gamma, float(node.attrs["epsilon"]), name=name
    )


def _l2_normalize(graph: Graph, node: Node, given: Given, name: Name) -> Tensor:
    axes = [int(axis) for axis in node.attrs.get("axis", [-1])]
    epsilon = float(node.attrs.get("epsilon", 1e-12))
    return tf.nn.l2_normalize(given["input"][0], axes, epsilon, name=name)


EMITS: dict[str, Emit] = {
    "relu": unary(tf.nn.relu), "relu6": unary(tf.nn.relu6), "sigmoid": unary(tf.sigmoid),
    "tanh": unary(tf.tanh), "exp": unary(tf.exp), "neg": unary(tf.negative),
    "identity": unary(tf.identity), "gelu": unary(lambda x, name: tf.nn.gelu(x, name=name)),
    "selu": unary(tf.nn.selu), "mish": unary(_mish), "elu": _elu, "celu": _celu,
    "hard-tanh": unary(lambda x, name: tf.clip_by_value(x, -1.0, 1.0, name=name)),
    "hard-sigmoid": unary(_hard_sigmoid),
    "hard-swish": unary(lambda x, name: tf.multiply(x, _hard_sigmoid(x, None), name=name)),
    "swish": unary(lambda x, name: tf.multiply(x, tf.sigmoid(x), name=name)),
    "leaky-relu": _leaky, "prelu": _prelu,
    "cast": _cast, "scale": _scale, "batchnorm": _batchnorm, "l2_normalize": _l2_normalize,
}  # fmt: skip
"""By kind of op."""
