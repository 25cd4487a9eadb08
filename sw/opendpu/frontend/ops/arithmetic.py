# SPDX-License-Identifier: Apache-2.0
"""Add, Sub, Mul, Div of two tensors or a tensor and a constant; Sum, Min, Max of any number."""

import math

import numpy as np

from opendpu.frontend.context import Array, Call, broadcast_shape
from opendpu.frontend.layout import CHANNELS_LAST, Value, plain
from opendpu.frontend.ops.convolution import scale
from opendpu.frontend.ops.registry import handles
from opendpu.frontend.refusal import Refusal
from opendpu.frontend.source import as_float
from opendpu.ir import Node
from opendpu.ops.average import average_factor
from opendpu.ops.pooling import reduced_window

_KINDS = {"Add": "add", "Sub": "sub", "Mul": "mul", "Div": "div", "Min": "min", "Max": "max"}
_BIASED = (
    "conv2d", "depthwise-conv2d", "transposed-conv2d", "transposed-depthwise-conv2d",
    "inner-product",
)  # fmt: skip


@handles(*_KINDS, "Sum")
def arithmetic(call: Call) -> None:
    """Convert; constants become a bias or a per-channel scale where they can."""
    op_type, count = call.proto.op_type, len(call.proto.input)
    if count == 1:
        call.bind(call.value(0))
        return
    first, second = (call.constant(n) if count == 2 else None for n in (0, 1))
    constant, index = (second, 0) if second is not None else (first, 1)
    commutes = op_type in ("Add", "Sum", "Mul") or index == 0
    if constant is not None and commutes and op_type not in ("Min", "Max"):
        factor, offset = _affine(op_type, as_float(constant))
        if _with_constant(call, index, factor, offset):
            return
    _emit(call, _KINDS.get(op_type, "add"))


def _emit(call: Call, kind: str) -> None:
    """Emit an op of all inputs."""
    values = [call.context.straight(call.value(n)) for n in range(len(call.proto.input))]
    shape = values[0].shape
    for value in values[1:]:
        shape = broadcast_shape(shape, value.shape)
    rank = len(shape)
    perm = _common_order(call, values, rank)
    nodes = [_aligned(call, value, perm) for value in values]
    stored = tuple(shape[axis] for axis in perm)
    name = call.context.emit(call.output, kind, stored, {"input": nodes})
    call.bind(Value(name, shape, perm))


def _affine(op_type: str, array: Array) -> tuple[Array | None, Array | None]:
    """Return what the constant multiplies and adds; nothing for a part that does neither."""
    match op_type:
        case "Add" | "Sum":
            return None, array
        case "Sub":
            return None, -array
        case "Div":
            return 1 / array, None
    return array, None


def _with_constant(call: Call, index: int, factor: Array | None, offset: Array | None) -> bool:
    """Apply a per-channel constant; return whether it was one."""
    value = call.value(index)
    array = factor if factor is not None else offset
    assert array is not None
    if value.flat is not None or array.ndim > len(value.shape) or len(value.shape) < 2:
        return False
    shape = (1,) * (len(value.shape) - array.ndim) + array.shape
    if any(size not in (1, own) for size, own in zip(shape, value.shape, strict=True)):
        return False
    if array.size and np.all(array == array.flat[0]):
        array, shape = array.flat[:1], (1,) * len(shape)
    axes = [axis for axis, size in enumerate(shape) if size != 1]
    channel = axes[0] if axes else value.perm[-1]
    natural = channel == value.perm[-1] or (channel == 1 and len(value.shape) in CHANNELS_LAST)
    if len(axes) > 1 or not natural:
        return False
    channels = value.shape[channel]
    vector = np.broadcast_to(array.ravel(), (channels,))
    producer = call.sole_producer(index)
    if producer is not None and factor is not None and _is_simulated(call, producer, vector):
        call.context.rename(producer.name, call.output)
        call.bind(call.context.values[call.name(index)])
        return True
    if (
        offset is not None
        and producer is not None
        and producer.kind in _BIASED
        and producer.shape[-1] == channels
        and value.perm[-1] == channel
    ):
        _add_bias(call, producer.name, vector, 1 - index)
        call.context.rename(producer.name, call.output)
        call.bind(call.context.values[call.name(index)])
        return True
    if call.is_quantized(1 - index):
        return False
    if value.perm[-1] != channel:
        if _is_product(call, value):
            return False
        value = Value(
            call.context.ordered(value, _order_ending_in(value, channel)),
            value.shape,
            _order_ending_in(value, channel),
        )
    node = call.context.view(value.node, value.stored)
    ones, zeros = np.ones(channels), np.zeros(channels)
    name = scale(
        call,
        node,
        vector if factor is not None else ones,
        vector if offset is not None else zeros,
    )
    call.bind(value.on(name))
    return True


def _is_product(call: Call, value: Value) -> bool:
    """Return whether a value is a product of matrices as it came: scores, not a feature map.

    A number a head is no number a channel then: the softmax behind reads rows, which stay last.
    """
    node = call.context.graph[value.node]
    return node.kind == "matmul" and node.shape == value.shape


def _order_ending_in(value: Value, axis: int) -> tuple[int, ...]:
    return (*(a for a in range(len(value.shape)) if a != axis), axis)


def _is_simulated(call: Call, producer: Node, factor: Array) -> bool:
    """Return whether a factor stands for the error of the DPU's own arithmetic.

    AMD's quantizer for ONNX writes such products behind average pooling and hard-sigmoid.
    """
    if not call.context.source.quantized or np.any(factor != factor[0]):
        return False
    match producer.kind:
        case "avgpool2d":
            numerator, shift = average_factor(
                kernel_h=producer.attrs["kernel"][1], kernel_w=producer.attrs["kernel"][0]
            )
            error = numerator * math.prod(producer.attrs["kernel"]) / (1 << shift)
        case "reduction_mean" if call.context.graph[producer.sources()[0]].shape[3:]:
            rows, columns = reduced_window(producer, call.context.graph)
            numerator, shift = average_factor(kernel_h=rows, kernel_w=columns)
            error = numerator * rows * columns / (1 << shift)
        case "hard-sigmoid":
            error = 2731 / (1 << 14) * 6
        case _:
            return False
    return math.isclose(float(factor[0]), error, rel_tol=1e-5)


def _add_bias(call: Call, name: str, vector: Array, constant: int) -> None:
    """Add ``vector``, which is input ``constant``, to the bias of a layer."""
    graph = call.context.graph
    node = graph[name]
    if "bias" in node.inputs:
        old = graph[node.inputs["bias"][0]]
        old = graph[old.inputs["input"][0]] if old.kind == "fix" else old
        if old.value is None:
            raise Refusal("the layer before has a bias in integers already")
        node.inputs["bias"] = [call.context.const(f"{call.output}_bias", old.value + vector)]
    else:
        node.inputs["bias"] = [call.parameter(constant, "bias", vector, (0, 0))]
    graph.sort()


def _common_order(call: Call, values: list[Value], rank: int) -> tuple[int, ...]:
    """Return the order of a result: that of the first operand in another one than ONNX's.

    One that is no feature map's is what is left of a transpose, and gives way to ONNX's. So do
    several that differ: in ONNX's order, an operand repeats along the last axes as a rule.
    """
    graph = call.context.graph
    computed = [v for v in values if len(v.shape) == rank and graph[v.node].value is None]
    orders = {value.perm for value in computed}
    usual = plain(rank) in orders or len(orders) > 1
    for value in values:
        other = len(value.shape) == rank and value.perm != plain(rank)
        if other and (not usual or value.perm == CHANNELS_LAST.get(rank)):
            return value.perm
    return plain(rank)


def _aligned(call: Call, value: Value, perm: tuple[int, ...]) -> str:
    """Return ``value`` with leading unit axes up to the rank of ``perm`` and in that order."""
    missing = len(perm) - len(value.shape)
    lifted = Value(
        value.node,
        (1,) * missing + value.shape,
        (*range(missing), *(axis + missing for axis in value.perm)),
    )
    return call.context.ordered(lifted, perm)
