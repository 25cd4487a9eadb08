# SPDX-License-Identifier: Apache-2.0
"""Normalization: by constants a channel, or by values of the same image."""

import numpy as np

from opendpu.ir import Node
from opendpu.ops.elementwise import number, operands
from opendpu.ops.onnx_builder import OnnxBuilder
from opendpu.ops.operator import Operator, register


def _scale(builder: OnnxBuilder, node: Node) -> None:
    """Emit ``input * scale + bias`` over one axis."""
    names = [node.inputs[arg][0] for arg in ("input", "scale", "bias") if node.inputs.get(arg)]
    rank = len(builder.graph[names[0]].shape)
    if int(node.attrs.get("axis", -1)) % rank != rank - 1:
        behind = rank - 1 - int(node.attrs["axis"]) % rank
        given = [builder.plain(names[0])]
        for name in names[1:]:
            value = builder.plain(name)
            shape = [-1, *[1] * behind]
            given.append(builder.op("Reshape", [value, builder.integers(shape)]))
        first = False
    else:
        given, first = operands(builder, node, names)
    made = builder.op("Mul", given[:2])
    if len(given) > 2:
        made = builder.op("Add", [made, given[2]])
    builder.bind(node, made, channels_first=first)


def _batchnorm(builder: OnnxBuilder, node: Node) -> None:
    """Emit BatchNormalization over the last axis."""
    names = [node.inputs[arg][0] for arg in ("gamma", "beta", "moving_mean", "moving_var")]
    gamma, beta, mean, variance = (_values(builder, name) for name in names)
    factor = gamma / np.sqrt(variance + float(node.attrs["epsilon"]))
    offset = (beta - mean * factor).astype(np.float32)
    (source,) = node.inputs["input"]
    (value,), first = operands(builder, node, [source])
    shape = (1, -1, 1, 1) if first else (-1,)
    made = builder.op("Mul", [value, builder.initializer(factor.astype(np.float32).reshape(shape))])
    made = builder.op("Add", [made, builder.initializer(offset.reshape(shape))])
    builder.bind(node, made, channels_first=first)


def _values(builder: OnnxBuilder, name: str) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    value = builder.constant(name)
    assert value is not None, name
    return value.astype(np.float64)


def _softmax(builder: OnnxBuilder, node: Node) -> None:
    value = builder.plain(node.inputs["input"][0])
    builder.bind(node, builder.op("Softmax", [value], axis=int(node.attrs["axis"])))


def _lrn(builder: OnnxBuilder, node: Node) -> None:
    value = builder.channels_first(node.inputs["input"][0])
    attrs = {key: float(node.attrs[key]) for key in ("alpha", "beta", "bias")}
    name = builder.op("LRN", [value], size=int(node.attrs["size"]), **attrs)
    builder.bind(node, name, channels_first=True)


def _groups(builder: OnnxBuilder, node: Node) -> None:
    """Emit groups of channels with mean 0 and variance 1; weight and bias are one a channel."""
    (source,) = node.inputs["input"]
    channels = node.shape[-1]
    groups = channels if node.kind == "instancenorm" else int(node.attrs["num_groups"])
    value = builder.channels_first(source)
    sizes = builder.op("Shape", [value])
    grouped = builder.op("Reshape", [value, builder.integers([0, groups, -1])])
    fill = (builder.initializer(make(groups, np.float32)) for make in (np.ones, np.zeros))
    epsilon = float(node.attrs["eps"])
    made = builder.op("InstanceNormalization", [grouped, *fill], epsilon=epsilon)
    made = builder.op("Reshape", [made, sizes])
    if node.attrs.get("affine"):
        for op_type, arg in (("Mul", "weight"), ("Add", "bias")):
            value = builder.parameter(node.inputs[arg][0], lambda a: a.reshape(1, -1, 1, 1))
            made = builder.op(op_type, [made, value])
    builder.bind(node, made, channels_first=True)


def _l2_normalize(builder: OnnxBuilder, node: Node) -> None:
    """Emit ``x / sqrt(max(sum(x**2), epsilon))``."""
    value = builder.plain(node.inputs["input"][0])
    axes = node.attrs.get("axis", [-1])
    square = builder.op("Mul", [value, value])
    total = builder.op("ReduceSum", [square, builder.integers(axes)], keepdims=1)
    floor = number(builder, float(node.attrs.get("epsilon", 1e-12)))
    root = builder.op("Sqrt", [builder.op("Max", [total, floor])])
    builder.bind(node, builder.op("Div", [value, root]))


register(
    Operator(kind="scale", emit=_scale, elementwise=True),
    Operator(kind="batchnorm", emit=_batchnorm),
    Operator(kind="softmax", emit=_softmax),
    Operator(kind="lrn", emit=_lrn),
    Operator(kind="l2_normalize", emit=_l2_normalize),
    Operator(kind="groupnorm", emit=_groups),
    Operator(kind="instancenorm", emit=_groups),
)
