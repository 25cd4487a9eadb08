# SPDX-License-Identifier: Apache-2.0
"""Operands of QuantizeLinear and DequantizeLinear that are written in a roundabout way.

PyTorch's older exporter writes quantized modules so: Cast of integers to the type that they have
between the two nodes of a pair, Identity of scales, zero points made by ConstantOfShape and Cast.
What layers share is often behind Identity, and may have been given a pair in front of it.
"""

import math
from collections.abc import Sequence

import numpy as np
import onnx
from onnx import helper, numpy_helper

from opendpu.frontend.def_use import attributes_of, without_unread
from opendpu.frontend.model_file import constants_of_nodes, constants_of_tensors
from opendpu.ir import Array
from opendpu.ops.foreign import DEFAULT_DOMAINS
from opendpu.ops.quantizing import DEQUANTIZE_LINEAR, QUANTIZE_LINEAR

MAKING = ("Cast", "ConstantOfShape", "Identity")
"""Operators that are computed where they make scales or zero points."""
LARGEST = 1 << 16
"""Elements of a scale or zero point, at most."""


def with_plain_operands(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model whose pairs read constants, and each other; itself if they do already."""
    nodes = model.graph.node
    if not any(node.op_type == DEQUANTIZE_LINEAR for node in nodes) or not _is_ordered(nodes):
        return model
    operands = _Operands(model.graph)
    made, sources = operands.made(), operands.sources()
    if not made and not sources:
        return model
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    graph = copy.graph
    kept = [node for node in graph.node if not made.keys() & set(node.output)]
    for node in kept:
        for index, name in enumerate(node.input):
            node.input[index] = sources.get(name, name)
    kept = without_unread(
        kept, [item.name for item in graph.output], lambda node: node.op_type in MAKING
    )
    del graph.node[:]
    graph.node.extend(kept)
    graph.initializer.extend(numpy_helper.from_array(a, name) for name, a in made.items())
    return copy


def _is_ordered(nodes: Sequence[onnx.NodeProto]) -> bool:
    """Return whether no node reads what it or a later one makes; a file with circles is damaged."""
    later = {name for node in nodes for name in node.output}
    for node in nodes:
        if not later.isdisjoint(node.input):
            return False
        later.difference_update(node.output)
    return True


class _Operands:
    """What the pairs of a graph read."""

    def __init__(self, graph: onnx.GraphProto) -> None:
        self._nodes = [node for node in graph.node if node.domain in DEFAULT_DOMAINS]
        small = [tensor for tensor in graph.initializer if math.prod(tensor.dims) <= LARGEST]
        self._known = {**constants_of_tensors(small), **constants_of_nodes(graph.node)}
        self._given = {*self._known, *(item.name for item in graph.initializer)}
        self._producers = {node.output[0]: node for node in self._nodes if node.output}
        self._outputs = {item.name for item in graph.output}

    def made(self) -> dict[str, Array]:
        """Return scales and zero points that nodes make of constants, by name."""
        found: dict[str, Array] = {}
        wanted = {
            name
            for node in self._nodes
            if node.op_type in (QUANTIZE_LINEAR, DEQUANTIZE_LINEAR)
            for name in node.input[1:]
        }
        for name in wanted - self._outputs:
            value = self._value(name)
            if value is not None and name not in self._given:
                found[name] = value
        return found

    def sources(self) -> dict[str, str]:
        """Return what tensors around DequantizeLinear are made of, where nothing changes them.

        Both by name; a Cast to the type of what it is given, or Identity, lies between.
        """
        found = {}
        for node in self._nodes:
            for name in node.input[:1] if node.op_type == DEQUANTIZE_LINEAR else ():
                found[name] = self._source(name)
            for name in node.output if node.op_type == "Identity" and node.input else ():
                made = self._producers.get(self._source(name))
                if (
                    made is not None
                    and made.op_type == DEQUANTIZE_LINEAR
                    and name not in self._outputs
                ):
                    found[name] = made.output[0]
        return {name: source for name, source in found.items() if name != source}

    def _source(self, name: str) -> str:
        while (before := self._unchanged(name)) is not None:
            name = before
        return name

    def _unchanged(self, name: str) -> str | None:
        node = self._producers.get(name)
        if node is None or node.op_type not in ("Cast", "Identity") or not node.input:
            return None
        if node.op_type == "Identity":
            return str(node.input[0])
        same = _number(node, "to", 0) == self._stored_type(str(node.input[0]))
        return str(node.input[0]) if same else None

    def _stored_type(self, name: str) -> int | None:
        """Return the type that QuantizeLinear, or a constant, gives integers."""
        node = self._producers.get(name)
        while node is not None and node.op_type == "Identity" and node.input:
            name = node.input[0]
            node = self._producers.get(name)
        if name in self._known:
            return helper.np_dtype_to_tensor_dtype(self._known[name].dtype)
        if node is None or node.op_type != QUANTIZE_LINEAR:
            return None
        if len(node.input) > 2 and node.input[2]:
            zero = self._value(node.input[2])
            return None if zero is None else helper.np_dtype_to_tensor_dtype(zero.dtype)
        return _number(node, "output_dtype", 0) or onnx.TensorProto.UINT8

    def _value(self, name: str) -> Array | None:
        """Return what a tensor is, if constants say it."""
        if name in self._known:
            return self._known[name]
        node = self._producers.get(name)
        if node is None or node.op_type not in MAKING or not node.input:
            return None
        given = self._value(node.input[0])
        if given is None:
            return None
        value = _computed(node, given)
        if value is not None:
            self._known[name] = value
        return value


def _computed(node: onnx.NodeProto, given: Array) -> Array | None:
    """Return what one of :data:`MAKING` makes of a constant; nothing where that makes no sense."""
    match node.op_type:
        case "Identity":
            return given
        case "Cast":
            to = _number(node, "to", 0)
            integers = to in (onnx.TensorProto.INT8, onnx.TensorProto.UINT8, onnx.TensorProto.INT32)
            real = to == onnx.TensorProto.FLOAT
            if not (integers or real) or given.dtype.kind not in "iuf":
                return None
            return given.astype(helper.tensor_dtype_to_np_dtype(to))
        case _:
            sizes = [int(size) for size in given.ravel()]
            if given.dtype.kind not in "iu" or min(sizes, default=0) < 0:
                return None
            filling = attributes_of(node).get("value")
            value = np.zeros(1, np.float32) if filling is None else numpy_helper.to_array(filling)
            if math.prod(sizes) > LARGEST or value.size != 1:
                return None
            return np.full(sizes, value.ravel()[0], value.dtype)


def _number(node: onnx.NodeProto, name: str, default: int) -> int:
    """Return an attribute that is an integer."""
    return next((int(item.i) for item in node.attribute if item.name == name), default)
