# SPDX-License-Identifier: Apache-2.0
"""Names of values and nodes in ONNX files that people know from their own model."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import onnx

from opendpu.export.quantized_builder import QuantizedBuilder
from opendpu.ir import Node

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
        give(None if integers is None else integers.name, node.name)
        give(value, node.name if integers is None else f"{node.name}_{DEQUANTIZED}")
    return found


def name_nodes(builder: QuantizedBuilder) -> None:
    """Give every node a name: that of the user's node, and its operator behind it for helpers."""
    known = {node.origin.name or node.name for node in builder.graph}
    taken = {node.name for node in builder.nodes if node.name}
    for op, nodes in _by_op(builder):
        main = _main(op, nodes, builder)
        for node in nodes:
            if node.name:
                continue
            name = node.op_type if op is None else op.origin.name or op.name
            if op is not None and node is not main:
                name = f"{name}/{node.op_type}"
            node.name = _free(name, taken, known)
            taken.add(node.name)


def _free(name: str, taken: Collection[str], known: Collection[str]) -> str:
    """Return a name, with a number behind it if another node has it, or will have it."""
    unique, number = name, 0
    while unique in taken or (number and unique in known):
        number += 1
        unique = f"{name}_{number}"
    return unique


def _main(
    op: Node | None, nodes: Sequence[onnx.NodeProto], builder: QuantizedBuilder
) -> onnx.NodeProto | None:
    """Return the node that is the user's: of the same operator, or the one that makes the value."""
    if op is None or op.kind == "fix":
        return None
    same = [node for node in nodes if node.op_type == op.origin.op_type]
    return next(iter(same), None) or next(
        (node for node in nodes if builder.values.get(op.name) in node.output), None
    )


def _by_op(builder: QuantizedBuilder) -> Iterator[tuple[Node | None, list[onnx.NodeProto]]]:
    """Yield what was made for each op: nodes come in the order of the ops."""
    made = {value: builder.graph[name] for name, value in builder.values.items()}
    waiting: list[onnx.NodeProto] = []
    for node in builder.nodes:
        waiting.append(node)
        op = next((made[name] for name in node.output if name in made), None)
        if op is not None:
            yield op, waiting
            waiting = []
    yield None, waiting
