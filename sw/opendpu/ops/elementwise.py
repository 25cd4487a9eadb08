# SPDX-License-Identifier: Apache-2.0
"""Functions of each element: sums, products, activations."""

from collections.abc import Callable
from typing import Any

import numpy as np

from opendpu.ir import Node
from opendpu.ops.cut import cut_terms
from opendpu.ops.onnx_builder import OnnxBuilder
from opendpu.ops.operator import Emit, Operator, register

SELU_ALPHA, SELU_GAMMA = 1.6732632423543772, 1.0507009873554805

Function = Callable[[OnnxBuilder, str, Node], str]
"""From the ONNX name of the input to that of the result."""


def operands(builder: OnnxBuilder, node: Node, names: list[str]) -> tuple[list[str], bool]:
    """Return all inputs in one order of axes, and whether that is NCHW.

    NCHW only where a feature map is so already, and the others have four axes or are vectors of
    constants.
    """
    ranks = [len(builder.graph[name].shape) for name in names]
    values = [builder.constant(name) for name in names]
    possible = all(
        rank == 4 or (value is not None and rank == 1)
        for rank, value in zip(ranks, values, strict=True)
    )
    if not possible or not any(builder.is_first(name) for name in names):
        return [builder.plain(name) for name in names], False
    made = []
    for name, rank, value in zip(names, ranks, values, strict=True):
        if rank == 1 and value is not None:
            made.append(builder.parameter(name, lambda array: array.reshape(1, -1, 1, 1)))
        else:
            made.append(builder.channels_first(name))
    return made, True


def folded(op_type: str) -> Emit:
    """Return the kernel that joins all inputs by a function of two; of sums, cut as on the DPU."""

    def emit(builder: OnnxBuilder, node: Node) -> None:
        names = node.inputs["input"]
        given, first = operands(builder, node, names)
        cuts = cut_terms(builder.graph, node, lambda: builder.users) if builder.cuts else {}
        if cuts:
            given = [
                builder.cut(value, cuts[name]) if name in cuts else value
                for name, value in zip(names, given, strict=True)
            ]
        made = given[0]
        for other in given[1:]:
            made = builder.op(op_type, [made, other])
        if len(given) == 1:
            made = builder.op("Identity", given)
        builder.bind(node, made, channels_first=first)

    return emit


def unary(function: Function) -> Emit:
    """Return the kernel of a function of one tensor."""

    def emit(builder: OnnxBuilder, node: Node) -> None:
        (value,), first = operands(builder, node, node.inputs["input"][:1])
        builder.bind(node, function(builder, value, node), channels_first=first)

    return emit


def simple(op_type: str, **attrs: Any) -> Emit:
    """Return the kernel that is one ONNX operator."""
    return unary(lambda builder, x, node: builder.op(op_type, [x], **attrs))


def number(builder: OnnxBuilder, value: float) -> str:
    """Return a float32 constant."""
    return builder.initializer(np.array(value, np.float32))


def clip(builder: OnnxBuilder, x: str, low: float, high: float) -> str:
    """Return ``x`` clipped to a range."""
    return builder.op("Clip", [x, number(builder, low), number(builder, high)])


def _hard_sigmoid(builder: OnnxBuilder, x: str, node: Node) -> str:
    return builder.op("HardSigmoid", [x], alpha=1 / 6, beta=0.5)


def _hard_swish(builder: OnnxBuilder, x: str, node: Node) -> str:
    return builder.op("Mul", [x, _hard_sigmoid(builder, x, node)])


def _swish(builder: OnnxBuilder, x: str, node: Node) -> str:
    return builder.op("Mul", [x, builder.op("Sigmoid", [x])])


def _mish(builder: OnnxBuilder, x: str, node: Node) -> str:
    return builder.op("Mul", [x, builder.op("Tanh", [builder.op("Softplus", [x])])])


def _gelu(builder: OnnxBuilder, x: str, node: Node) -> str:
    """Return ``x * (1 + erf(x / sqrt(2))) / 2``."""
    inner = builder.op("Erf", [builder.op("Mul", [x, number(builder, 2**-0.5)])])
    gate = builder.op("Add", [inner, number(builder, 1)])
    return builder.op("Mul", [builder.op("Mul", [x, number(builder, 0.5)]), gate])


def _elu(builder: OnnxBuilder, x: str, node: Node) -> str:
    return builder.op("Elu", [x], alpha=float(node.attrs.get("alpha", 1.0)))


def _celu(builder: OnnxBuilder, x: str, node: Node) -> str:
    return builder.op("Celu", [x], alpha=float(node.attrs.get("alpha", 1.0)))


def _leaky(builder: OnnxBuilder, x: str, node: Node) -> str:
    return builder.op("LeakyRelu", [x], alpha=float(node.attrs["alpha"]))


def _prelu(builder: OnnxBuilder, node: Node) -> None:
    names = [*node.inputs["input"], *node.inputs["weight"]]
    given, first = operands(builder, node, names)
    builder.bind(node, builder.op("PRelu", given), channels_first=first)


def _threshold(builder: OnnxBuilder, node: Node) -> None:
    """Emit ``x`` where it is above a threshold, else zero."""
    names = [*node.inputs["input"], *node.inputs["threshold"]]
    (x, limit), first = operands(builder, node, names)
    above = builder.op("Greater", [x, limit])
    made = builder.op("Where", [above, x, number(builder, 0)])
    builder.bind(node, made, channels_first=first)


ADD_OR_MULTIPLY = "the misc engine adds and multiplies; add or mul with a constant would lift it"


def _elementwise(**fields: Any) -> Operator:
    """Return an operator whose elements each depend on one of each operand."""
    return Operator(elementwise=True, **fields)


register(
    _elementwise(kind="add", emit=folded("Add"), fuses=("relu",), fixed="eltwise-fix"),
    _elementwise(kind="mul", emit=folded("Mul"), fuses=("relu",), fixed="eltwise-fix"),
    _elementwise(kind="sub", emit=folded("Sub"), lift=ADD_OR_MULTIPLY),
    _elementwise(kind="div", emit=folded("Div"), lift=ADD_OR_MULTIPLY),
    _elementwise(kind="min", emit=folded("Min"), lift=ADD_OR_MULTIPLY),
    _elementwise(kind="max", emit=folded("Max"), lift=ADD_OR_MULTIPLY),
    _elementwise(
        kind="relu", emit=simple("Relu"), channelwise=True, homogeneous=True, fixed="eltwise-fix"
    ),
    _elementwise(
        kind="relu6", emit=unary(lambda b, x, node: clip(b, x, 0, 6)), channelwise=True,
        fixed="depthwise-conv2d-fix",
    ),
    _elementwise(
        kind="leaky-relu", emit=unary(_leaky), channelwise=True, homogeneous=True,
        fixed="leaky-relu-fix",
    ),
    _elementwise(kind="prelu", emit=_prelu, homogeneous=True, fixed="prelu-fix"),
    _elementwise(kind="hard-sigmoid", emit=unary(_hard_sigmoid), fixed="hard-sigmoid-fix"),
    _elementwise(kind="hard-swish", emit=unary(_hard_swish), fixed="hard-sigmoid-fix"),
    _elementwise(kind="swish", emit=unary(_swish)),
    _elementwise(kind="sigmoid", emit=simple("Sigmoid")),
    _elementwise(kind="tanh", emit=simple("Tanh")),
    _elementwise(kind="exp", emit=simple("Exp")),
    _elementwise(kind="neg", emit=simple("Neg")),
    _elementwise(kind="mish", emit=unary(_mish)),
    _elementwise(kind="gelu", emit=unary(_gelu)),
    _elementwise(kind="elu", emit=unary(_elu)),
    _elementwise(kind="celu", emit=unary(_celu)),
    _elementwise(kind="selu", emit=simple("Selu", alpha=SELU_ALPHA, gamma=SELU_GAMMA)),
    _elementwise(kind="hard-tanh", emit=unary(lambda b, x, node: clip(b, x, -1, 1))),
    _elementwise(kind="threshold", emit=_threshold),
)  # fmt: skip
