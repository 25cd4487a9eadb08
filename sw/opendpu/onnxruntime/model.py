# SPDX-License-Identifier: Apache-2.0
"""Graphs of a running onnxruntime as ONNX models."""

import ctypes
import dataclasses
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from opendpu.onnxruntime.abi import Api
from opendpu.onnxruntime.sizes import NotWorthItError

_INT, _INTS, _FLOAT, _FLOATS, _STRING, _STRINGS, _GRAPH, _TENSOR = range(1, 9)
"""``OrtOpAttrType``."""


@dataclasses.dataclass(frozen=True)
class GraphReader:
    """Reads ``OrtGraph`` objects through the C API.

    Parameters
    ----------
    api
        The functions of onnxruntime.
    """

    api: Api

    def nodes(self, graph: int) -> list[int]:
        """Return the addresses of the nodes, in an order in which they can be computed."""
        found = self.api.pointers("Graph_GetNumNodes", "Graph_GetNodes", graph)
        return [node for node in found if node]

    def is_nested(self, graph: int) -> bool:
        """Return whether a graph is the body of a node.

        onnxruntime 1.23 does not know the node; there a body is told by values from outside.
        """
        if self.api.pointer("Graph_GetParentNode", _at(graph)):
            return True
        nodes = self.nodes(graph)
        values = self.api.pointers("Graph_GetNumInitializers", "Graph_GetInitializers", graph)
        own = {"", *self.names(graph, "Inputs"), *map(self._name, values)}
        own.update(name for node in nodes for name in self.node_names(node, "Outputs"))
        return any(name not in own for node in nodes for name in self.node_names(node, "Inputs"))

    def path(self, graph: int) -> str:
        """Return the file that a model came from; nothing where it came from memory."""
        return self.api.text("Graph_GetModelPath", _at(graph))

    def names(self, graph: int, which: str) -> list[str]:
        """Return the names of a graph's ``Inputs`` or ``Outputs``."""
        values = self.api.pointers(f"Graph_GetNum{which}", f"Graph_Get{which}", graph)
        return [self._name(value) for value in values]

    def shapes(self, graph: int) -> dict[str, list[int | str | None]]:
        """Return the shapes of a graph's inputs that are tensors; open sizes are names, or None."""
        values = self.api.pointers("Graph_GetNumInputs", "Graph_GetInputs", graph)
        return {
            self._name(value): self._tensor_type(tensor)[1]
            for value in values
            if (tensor := self._tensor(value))
        }

    def is_of_numbers(self, graph: int) -> bool:
        """Return whether all inputs and outputs of a graph are tensors of numbers."""
        ends = (
            value
            for which in ("Inputs", "Outputs")
            for value in self.api.pointers(f"Graph_GetNum{which}", f"Graph_Get{which}", graph)
        )
        tensors = map(self._tensor, ends)
        return all(one and self._tensor_type(one)[0] != TensorProto.STRING for one in tensors)

    def node_names(self, node: int, which: str) -> list[str]:
        """Return the names of a node's ``Inputs`` or ``Outputs``."""
        values = self.api.pointers(f"Node_GetNum{which}", f"Node_Get{which}", node)
        return [self._name(value) for value in values]

    def operator(self, node: int) -> tuple[str, str]:
        """Return a node's domain and operator."""
        return (
            self.api.text("Node_GetDomain", _at(node)),
            self.api.text("Node_GetOperatorType", _at(node)),
        )

    def model(self, graph: int) -> onnx.ModelProto:
        """Return a graph and all in it as a model."""
        number = self.api.size("Graph_GetNumOperatorSets", _at(graph))
        domains = (ctypes.c_char_p * number)()
        versions = (ctypes.c_int64 * number)()
        self.api.Graph_GetOperatorSets(_at(graph), domains, versions, ctypes.c_size_t(number))
        version = ctypes.c_int64()
        self.api.Graph_GetOnnxIRVersion(_at(graph), ctypes.byref(version))
        sets = zip(domains, versions, strict=True)
        opsets = [onnx.helper.make_opsetid((domain or b"").decode(), int(v)) for domain, v in sets]
        return onnx.helper.make_model(
            self._graph(graph), opset_imports=opsets, ir_version=version.value
        )

    def attributes(self, node: int) -> dict[str, Any]:
        """Return a node's attributes but the graphs: numbers, bytes, lists of them, tensors."""
        found = {}
        for attribute in self.api.pointers("Node_GetNumAttributes", "Node_GetAttributes", node):
            if attribute:
                name = self.api.text("OpAttr_GetName", _at(attribute))
                value = self._attribute(attribute)
                if value is not None:
                    found[name] = value
        return found

    def _graph(self, graph: int) -> onnx.GraphProto:
        weights = {}
        for value in self.api.pointers("Graph_GetNumInitializers", "Graph_GetInitializers", graph):
            name = self._name(value)
            weights[name] = onnx.numpy_helper.from_array(self._initializer(value), name)
        values = {
            which: self.api.pointers(f"Graph_GetNum{which}", f"Graph_Get{which}", graph)
            for which in ("Inputs", "Outputs")
        }
        inputs = [self._info(v) for v in values["Inputs"] if self._name(v) not in weights]
        outputs = [self._info(v) for v in values["Outputs"]]
        nodes = [self._node(node) for node in self.nodes(graph)]
        name = self.api.text("Graph_GetName", _at(graph)) or "graph"
        return onnx.helper.make_graph(nodes, name, inputs, outputs, list(weights.values()))

    def _node(self, node: int) -> onnx.NodeProto:
        domain, operator = self.operator(node)
        made = onnx.helper.make_node(
            operator,
            self.node_names(node, "Inputs"),
            self.node_names(node, "Outputs"),
            self.api.text("Node_GetName", _at(node)),
            domain=domain,
            **self.attributes(node),
        )
        number = self.api.size("Node_GetNumSubgraphs", _at(node))
        if number:
            graphs = (ctypes.c_void_p * number)()
            names = (ctypes.c_char_p * number)()
            self.api.Node_GetSubgraphs(_at(node), graphs, ctypes.c_size_t(number), names)
            for body, name in zip(graphs, names, strict=True):
                proto = self._graph(body)
                made.attribute.append(onnx.helper.make_attribute((name or b"").decode(), proto))
        return made

    def _name(self, value: int | None) -> str:
        return self.api.text("GetValueInfoName", _at(value)) if value else ""

    def _info(self, value: int | None) -> onnx.ValueInfoProto:
        tensor = self._tensor(value)
        if not tensor:
            return onnx.helper.make_empty_tensor_value_info(self._name(value))
        dtype, shape = self._tensor_type(tensor)
        return onnx.helper.make_tensor_value_info(self._name(value), dtype, shape)

    def _tensor(self, value: int | None) -> int | None:
        """Return the type of a value that is a tensor."""
        info = self.api.pointer("GetValueInfoTypeInfo", _at(value))
        return self.api.pointer("CastTypeInfoToTensorInfo", _at(info))

    def _tensor_type(self, tensor: int) -> tuple[int, list[int | str | None]]:
        dtype = ctypes.c_int()
        self.api.GetTensorElementType(_at(tensor), ctypes.byref(dtype))
        rank = self.api.size("GetDimensionsCount", _at(tensor))
        sizes = (ctypes.c_int64 * rank)()
        symbols = (ctypes.c_char_p * rank)()
        self.api.GetDimensions(_at(tensor), sizes, ctypes.c_size_t(rank))
        self.api.GetSymbolicDimensions(_at(tensor), symbols, ctypes.c_size_t(rank))
        shape: list[int | str | None] = [
            size if size >= 0 else (symbol or b"").decode() or None
            for size, symbol in zip(sizes, symbols, strict=True)
        ]
        return dtype.value, shape

    def _initializer(self, value: int | None) -> np.ndarray[Any, Any]:
        return self.tensor(self.api.pointer("ValueInfo_GetInitializerValue", _at(value)))

    def tensor(self, value: int | None) -> np.ndarray[Any, Any]:
        """Return a copy of the array in an ``OrtValue``."""
        info = self.api.pointer("GetTensorTypeAndShape", _at(value))
        try:
            dtype, shape = self._tensor_type(info or 0)
        finally:
            self.api.ReleaseTensorTypeAndShapeInfo(_at(info))
        data = self.api.pointer("GetTensorMutableData", _at(value))
        size = self.api.size("GetTensorSizeInBytes", _at(value))
        if dtype == TensorProto.STRING:
            raise NotWorthItError("it has texts among its weights, which the library cannot read")
        raw = ctypes.string_at(data, size) if data and size else b""
        kind = onnx.helper.tensor_dtype_to_np_dtype(dtype)
        return np.frombuffer(raw, kind).reshape([int(n) for n in shape if isinstance(n, int)])

    def _attribute(self, attribute: int) -> Any:
        kind = ctypes.c_int()
        self.api.OpAttr_GetType(_at(attribute), ctypes.byref(kind))
        if kind.value == _TENSOR:
            value = self.api.pointer("OpAttr_GetTensorAttributeAsOrtValue", _at(attribute))
            try:
                return onnx.numpy_helper.from_array(self.tensor(value))
            finally:
                self.api.ReleaseValue(_at(value))
        if kind.value in (_INT, _INTS):
            integers = np.frombuffer(self._raw(attribute, kind.value), np.int64)
            return int(integers[0]) if kind.value == _INT else integers.tolist()
        if kind.value in (_FLOAT, _FLOATS):
            floats = np.frombuffer(self._raw(attribute, kind.value), np.float32)
            return float(floats[0]) if kind.value == _FLOAT else floats.tolist()
        if kind.value == _STRING:
            return self._raw(attribute, kind.value)
        if kind.value == _STRINGS:
            return self._raw(attribute, kind.value).split(b"\0")[:-1]
        return None

    def _raw(self, attribute: int, kind: int) -> bytes:
        """Return the bytes of an attribute; the first call only asks how many there are."""
        needed = ctypes.c_size_t()
        read = self.api.unchecked("ReadOpAttr")
        arguments = (_at(attribute), ctypes.c_int(kind))
        status = read(*arguments, None, ctypes.c_size_t(0), ctypes.byref(needed))
        if status:
            self.api.ReleaseStatus(_at(status))
        if not needed.value:
            return b""
        buffer = ctypes.create_string_buffer(needed.value)
        self.api.ReadOpAttr(*arguments, buffer, needed, ctypes.byref(needed))
        return buffer.raw[: needed.value]


def _at(address: int | None) -> ctypes.c_void_p:
    return ctypes.c_void_p(address)
