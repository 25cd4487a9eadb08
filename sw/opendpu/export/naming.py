# SPDX-License-Identifier: Apache-2.0
"""Names of values and nodes in ONNX files that people know from their own model."""

from collections.abc import Iterable, Mapping

import onnx

from opendpu.export.quantized_builder import QuantizedBuilder
from opendpu.ir import Graph, Node

DEQUANTIZED = "dequantized"
"""What is behind the name of a ``fix`` in that of its real numbers."""


def value_names(
    builder: QuantizedBuilder, made: Mapping[str, str], outputs: Iterable[str]
) -> dict[str, str]:
    """Return new names by ONNX value: those of the ops, which are the user's tensors.

    ``made`` are those of values that are outputs, and ``outputs`` all of these.
    """
    taken = {*outputs, *(item.name for item in builder.inputs), *builder.initializers}
    found = dict(made)

    def give(value: str | None, name: str) -> None:
        if value is None or value in found or value in taken:
            return
        unique, number = name, 0
        while unique in taken:
            number += 1
            unique = f"{name}_{number}"
        found[value] = unique
        taken.add(unique)

    for node in builder.graph:
        value, integers = builder.values.get(node.name), builder.integers_of(node.name)
        give(integers, node.name)
        give(value, node.name if integers is None else f"{node.name}_{DEQUANTIZED}")
    return found


def name_nodes(builder: QuantizedBuilder) -> None:
    """Give every node a name: that of the user's node, a number behind it for what it needs."""
    owner = _owners(builder.graph, builder.values, builder.nodes)
    counts: dict[str, int] = {}
    for node, op in zip(builder.nodes, owner, strict=True):
        if node.name:
            continue
        made = op is not None and builder.values.get(op.name) in node.output
        name = (op.origin.name or op.name) if op is not None else node.op_type
        if op is not None and (op.kind == "fix" or not made):
            name = f"{name}/{node.op_type}"
        number = counts.get(name, 0)
        counts[name] = number + 1
        node.name = f"{name}_{number}" if number else name
        if op is not None and made and op.origin.line:
            node.metadata_props.add(key="opendpu.source_line", value=op.origin.line)


def _owners(
    graph: Graph, values: Mapping[str, str], nodes: Iterable[onnx.NodeProto]
) -> list[Node | None]:
    """Return the op that each ONNX node was made for: nodes come in the order of the ops."""
    made = {value: graph[name] for name, value in values.items()}
    found: list[Node | None] = []
    waiting = 0
    for node in nodes:
        waiting += 1
        op = next((made[name] for name in node.output if name in made), None)
        if op is not None:
            found += [op] * waiting
            waiting = 0
    return found + [None] * waiting
