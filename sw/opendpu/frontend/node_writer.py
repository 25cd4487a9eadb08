# SPDX-License-Identifier: Apache-2.0
"""Writes several ONNX nodes in the place of one."""

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from opendpu.frontend.def_use import attributes_of, with_origin
from opendpu.ir import Array

Attributes = Mapping[str, Any]
MALFORMED = (
    ArithmeticError, AttributeError, KeyError, IndexError, TypeError, ValueError,
)  # fmt: skip
"""What rules come across in attributes that make no sense."""


class NodeWriter:
    """Writes the nodes that stand for one, the last of which has its name and result."""

    def __init__(self, node: onnx.NodeProto, graph: onnx.GraphProto) -> None:
        self.node, self.graph = node, graph
        self.attrs = attributes_of(node)
        self.nodes: list[onnx.NodeProto] = []

    def given(self, index: int) -> str:
        """Return an input, empty where there is none."""
        return str(self.node.input[index]) if index < len(self.node.input) else ""

    def some(self, names: tuple[str, ...]) -> Attributes:
        """Return the attributes with some names that the node has."""
        return {name: self.attrs[name] for name in names if name in self.attrs}

    def constant(self, value: float | Array) -> str:
        """Add a constant, float32 if it is a number; return its name."""
        name = f"{self.node.output[0]}_number{len(self.nodes)}_{len(self.graph.initializer)}"
        array = value if isinstance(value, np.ndarray) else np.array(value, np.float32)
        self.graph.initializer.append(numpy_helper.from_array(array, name))
        return name

    def op(self, op_type: str, *inputs: str, **attrs: Any) -> str:
        """Add a node; return its result."""
        name = f"{self.node.output[0]}_step{len(self.nodes)}"
        given = list(inputs)
        while given and not given[-1]:
            given.pop()
        label = f"{self.node.name}_{op_type}"
        label += str(len(self.nodes)) if any(made.name == label for made in self.nodes) else ""
        label = label if self.node.name else ""
        made = helper.make_node(op_type, given, [name], label, **attrs)
        self.nodes.append(with_origin(made, self.node))
        return name

    def end(self) -> list[onnx.NodeProto]:
        """Return the nodes, the last one in the place of the fused one."""
        last = self.nodes[-1]
        last.output[0], last.name = self.node.output[0], self.node.name
        return self.nodes


Rule = Callable[[NodeWriter], list[onnx.NodeProto] | None]
"""What writes the nodes that stand for one; nothing where it stays as it is."""


def rewritten(
    model: onnx.ModelProto, rule_of: Callable[[onnx.NodeProto], Rule | None]
) -> onnx.ModelProto:
    """Return a model with what rules write in place of nodes; itself if no node has a rule."""
    if not any(rule_of(node) for node in model.graph.node):
        return model
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    nodes: list[onnx.NodeProto] = []
    for node in copy.graph.node:
        rule, made = rule_of(node), None
        if rule:
            with contextlib.suppress(*MALFORMED):  # it stays, and who reads it says what is wrong
                made = rule(NodeWriter(node, copy.graph))
        nodes += made if made is not None else [node]
    del copy.graph.node[:]
    copy.graph.node.extend(nodes)
    return copy
