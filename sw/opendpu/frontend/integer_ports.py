# SPDX-License-Identifier: Apache-2.0
"""Inputs and outputs that are integers with a scale, as those of the real numbers they stand for.

Converters of TFLite files, and tools that let a program quantize, leave out QuantizeLinear at an
input and DequantizeLinear at an output. With both, a compiled model has the file's integers there,
signed, and its first and last layer are as the others.
"""

import math

import onnx
from onnx import TensorProto, helper

from opendpu.frontend.model_file import reads
from opendpu.ops.foreign import DEFAULT_DOMAINS

INTEGERS = (TensorProto.INT8, TensorProto.UINT8)
MOVING = (
    "Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze",
)  # fmt: skip
"""Operators that integers may pass on their way."""
Grid = tuple[str, ...]
"""Names of a scale and perhaps a zero point."""


def with_real_ports(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model whose quantized inputs and outputs are float32; itself if it has none."""
    found = _Ports(model.graph)
    inputs = {item.name: found.behind(item.name) for item in found.inputs}
    outputs = {item.name: found.before(item.name) for item in model.graph.output if _stores(item)}
    if not any(inputs.values()) and not any(outputs.values()):
        return model
    made = onnx.ModelProto()
    made.CopyFrom(model)
    graph = _Ports(made.graph)
    first: list[onnx.NodeProto] = []
    for name, way in inputs.items():
        if way:
            first += graph.quantized(name, way)
    for name, way in outputs.items():
        if way:
            graph.dequantized(name, way)
    for item in (*made.graph.input, *made.graph.output):
        if inputs.get(item.name) or outputs.get(item.name):
            item.type.tensor_type.elem_type = TensorProto.FLOAT
    nodes = graph.nodes
    del made.graph.node[:], made.graph.value_info[:]
    made.graph.node.extend([*first, *nodes])
    made.graph.value_info.extend(v for v in model.graph.value_info if not _stores(v))
    return made


def _stores(item: onnx.ValueInfoProto) -> bool:
    return item.type.tensor_type.elem_type in INTEGERS


class _Ports:
    """The ways of integers from a graph's inputs and to its outputs, and what takes their place."""

    def __init__(self, graph: onnx.GraphProto) -> None:
        stored = {item.name: item for item in graph.initializer}
        self.inputs = [item for item in graph.input if _stores(item) and item.name not in stored]
        self._single = {name for name, item in stored.items() if math.prod(item.dims) == 1}
        self._single |= {
            node.output[0]
            for node in graph.node
            if node.op_type == "Constant"
            and any(item.name == "value" and math.prod(item.t.dims) == 1 for item in node.attribute)
        }
        self.nodes = list(graph.node)
        self._outputs = {item.name for item in graph.output}
        self._makers = {name: node for node in self.nodes for name in node.output}
        self._readers: dict[str, list[onnx.NodeProto]] = {}
        for node in self.nodes:
            for name in reads(node):
                self._readers.setdefault(name, []).append(node)

    def behind(self, name: str) -> Grid | None:
        """Return what all who read integers of an input dequantize them with."""
        ends = self._ends(name)
        grids = {self._grid(node, "Dequantize") for node in ends}
        return grids.pop() if len(grids) == 1 else None

    def _ends(self, name: str) -> list[onnx.NodeProto]:
        """Return the nodes that read integers, behind those that move them."""
        found: list[onnx.NodeProto] = []
        for node in self._readers.get(name, []):
            moves = node.op_type in MOVING and node.input[0] == name
            found += self._ends(node.output[0]) if moves else [node]
        return found

    def before(self, name: str) -> Grid | None:
        """Return what quantized the integers of an output."""
        end = self._begin(name)
        return None if end is None else self._grid(end, "Quantize")

    def _begin(self, name: str) -> onnx.NodeProto | None:
        """Return the node before those that only move integers to an output."""
        node = self._makers.get(name)
        if node is None or node.op_type not in MOVING:
            return node
        source = node.input[0]
        alone = len(self._readers.get(source, [])) == 1 and source not in self._outputs
        return self._begin(source) if alone else None

    def _grid(self, node: onnx.NodeProto, kind: str) -> Grid | None:
        """Return scale and zero point of a quantizing node, if it has one of each."""
        if node.op_type != f"{kind}Linear" or node.domain not in DEFAULT_DOMAINS:
            return None
        given = tuple(node.input[1:])
        return given if given and self._single.issuperset(given) else None

    def quantized(self, name: str, grid: Grid) -> list[onnx.NodeProto]:
        """Return a pair for an input that is real from now on; what dequantized it does nothing."""
        ends, real = self._ends(name), f"{name}/real"
        for node in self._readers[name]:
            node.input[:] = [real if given == name else given for given in node.input]
        for node in ends:
            node.op_type = "Identity"
            del node.input[1:], node.attribute[:]
        stored = f"{name}/stored"
        return [
            helper.make_node("QuantizeLinear", [name, *grid], [stored], stored),
            helper.make_node("DequantizeLinear", [stored, *grid], [real], real),
        ]

    def dequantized(self, name: str, grid: Grid) -> None:
        """Dequantize what becomes an output; who else reads its integers still does."""
        begin = self._begin(name)
        assert begin is not None  # before
        real = begin.output[0]
        stored = begin.output[0] = f"{real}/stored"
        for node in self._readers.get(real, []):
            if node.op_type not in MOVING:
                node.input[:] = [stored if given == real else given for given in node.input]
        end = helper.make_node("DequantizeLinear", [stored, *grid], [real], stored)
        self.nodes.insert(self.nodes.index(begin) + 1, end)
