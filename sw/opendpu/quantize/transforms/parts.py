# SPDX-License-Identifier: Apache-2.0
"""Ops that stand for another one: the DPU has only these."""

import dataclasses
import math
from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper

from opendpu.ir import Array, Graph, Node
from opendpu.ops.foreign import KIND, opset_of
from opendpu.ops.onnx_builder import IR_VERSION, OPSET
from opendpu.quantize.placement.groups import Demands

SHORT = 16
"""Rows of a map that are shorter are joined: what has a number a row is moved pixel by pixel."""
LONG = 128
"""Pixels of what they become, at most."""


def pixels(front: Sequence[int], columns: int) -> tuple[int, int]:
    """Return rows and columns of a map whose pixels are independent of each other.

    ``front`` are the axes ahead of ``columns``; where these are few, each row takes several.
    """
    rows = math.prod(front)
    together = [
        count for count in range(2, LONG // columns + 1) if rows % count == 0
    ] if columns < SHORT else []  # fmt: skip
    count = max(together, default=1)
    return rows // count, columns * count


@dataclasses.dataclass
class Parts:
    """The ops that stand for ``node``, whose name the last one takes over.

    Parameters
    ----------
    names
        Those that were added, and the last one.
    demands
        What some of them need of their scales, and which are the CPU's.
    given
        What the CPU makes of the network's inputs, beside the result of another op.
    """

    graph: Graph
    node: Node
    names: list[str] = dataclasses.field(default_factory=list)
    demands: Demands = dataclasses.field(default_factory=Demands)
    given: set[str] = dataclasses.field(default_factory=set)

    def add(
        self,
        name: str,
        kind: str,
        shape: tuple[int, ...],
        sources: list[str],
        attrs: Mapping[str, object] | None = None,
    ) -> str:
        """Add an op."""
        name = self.graph.unique(f"{self.node.name}_{name}")
        self.names.append(name)
        return self.graph.add(
            name, kind, shape, {"input": sources}, attrs, origin=self.node.origin
        ).name

    def constant(self, name: str, value: Array) -> str:
        """Add a constant."""
        return self.graph.add_const(f"{self.node.name}_{name}", value).name

    def reshaped(self, name: str, source: str, shape: tuple[int, ...]) -> str:
        """Return a tensor in some shape."""
        if self.graph[source].shape == shape:
            return source
        return self.add(name, "reshape", shape, [source], {"shape": list(shape)})

    def product(self, name: str, source: str, matrix: Array) -> str:
        """Add a product with a constant matrix, ``[inputs, outputs]``."""
        weights = self.constant(f"{name}_weights", matrix)
        shape = (*self.graph[source].shape[:-1], matrix.shape[1])
        attrs = {"transpose_a": False, "transpose_b": False}
        return self.add(name, "matmul", shape, [source, weights], attrs)

    def repeated(self, name: str, source: str, factor: float, count: int) -> str:
        """Add ``factor`` times the sum of a pixel's channels, ``count`` times."""
        return self.product(name, source, np.full((self.graph[source].shape[-1], count), factor))

    def function(
        self, name: str, source: str, nodes: list[onnx.NodeProto], numbers: Mapping[str, float]
    ) -> str:
        """Add ONNX operators that compute ``y`` from ``x`` and some numbers."""
        shape = self.graph[source].shape
        given, made = (
            helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n in ("x", "y")
        )
        constants = [
            helper.make_tensor(n, TensorProto.FLOAT, [], [value]) for n, value in numbers.items()
        ]
        needed = {opset_of(n) for n in self.graph} - {None}
        opset = max((version for version in needed if version), default=OPSET)
        model = helper.make_model(
            helper.make_graph(nodes, name, [given], [made], constants),
            opset_imports=[helper.make_opsetid("", opset)], ir_version=IR_VERSION,
        )  # fmt: skip
        call = self.graph.unique(f"{self.node.name}_{name}")
        data = model.SerializeToString(deterministic=True)
        return self.add(name, KIND, shape, [source], {"model": data, "call": call, "output": 0})

    def rows(self, axis: int) -> tuple[str, list[int]]:
        """Return the input with one axis last, through a transpose if need be, and the order."""
        (source,), shape = self.node.inputs["input"], self.node.shape
        axis %= len(shape)
        order = [*(n for n in range(len(shape)) if n != axis), axis]
        if axis < len(shape) - 1:
            turned = tuple(shape[n] for n in order)
            source = self.add("turned", "transpose", turned, [source], {"order": order})
        return source, order

    def end_rows(self, source: str, order: list[int]) -> None:
        """Let a tensor be the result whose axes are those of the op's result in another order."""
        if order == sorted(order):
            self.end(source)
            return
        source = self.reshaped("back", source, tuple(self.node.shape[n] for n in order))
        back = [order.index(axis) for axis in range(len(order))]
        self.node.kind, self.node.inputs = "transpose", {"input": [source]}
        self.node.attrs, self.node.reason = {"order": back}, ""
        self.names.append(self.node.name)

    def end(self, source: str) -> None:
        """Let a tensor be the result: in its shape where that is how it is read, else reshaped."""
        graph, node = self.graph, self.node
        for user in graph.consumers(node.name):
            if user.kind == "reshape" and user.shape == graph[source].shape and (
                user.name not in graph.outputs
            ):  # fmt: skip
                graph.replace(user.name, source)
                del graph.nodes[user.name]
        node.kind, node.inputs = "reshape", {"input": [source]}
        node.attrs, node.reason = {"shape": list(node.shape)}, ""
        self.names.append(node.name)
