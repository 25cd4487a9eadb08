# SPDX-License-Identifier: Apache-2.0
"""Graphs inside nodes as nodes of the graph around them: names that they make get a prefix."""

from collections.abc import Mapping

import onnx
from onnx import helper

from opendpu.frontend.model_file import inner_graphs


def instance(
    graph: onnx.GraphProto, prefix: str, given: Mapping[str, str]
) -> tuple[list[onnx.NodeProto], list[str]]:
    """Return the nodes of a graph inside a node, constants in front, and names of its outputs.

    ``given`` are values around it by the inputs that they are.
    """
    own = {tensor.name for tensor in graph.initializer}
    own |= {name for inner in graph.node for name in inner.output if name}
    names = {name: prefix + name for name in own} | dict(given)
    made = []
    for tensor in graph.initializer:
        copy = onnx.TensorProto()
        copy.CopyFrom(tensor)
        copy.name = names[tensor.name]
        made.append(helper.make_node("Constant", [], [copy.name], value=copy))
    made += [renamed(inner, names) for inner in graph.node]
    return made, [names.get(item.name, item.name) for item in graph.output]


def renamed(node: onnx.NodeProto, names: Mapping[str, str]) -> onnx.NodeProto:
    """Return a copy of a node, and of graphs inside it, with other names of values."""
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    copy.input[:] = [names.get(name, name) for name in node.input]
    copy.output[:] = [names.get(name, name) for name in node.output]
    for attribute in copy.attribute:
        for graph in inner_graphs(attribute):
            nodes = [renamed(inner, names) for inner in graph.node]
            del graph.node[:]
            graph.node.extend(nodes)
            for item in graph.output:
                item.name = names.get(item.name, item.name)
    return copy
