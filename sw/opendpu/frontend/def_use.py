# SPDX-License-Identifier: Apache-2.0
"""Definitions and uses: which node of an ONNX model makes a tensor, and which ones read it."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper

from opendpu.frontend.model_file import reads
from opendpu.ir import Array


@dataclasses.dataclass(frozen=True)
class Fusion:
    """What stands for nodes, one operator as a rule, and these nodes, the last one at the end."""

    made: Sequence[onnx.NodeProto]
    nodes: list[onnx.NodeProto]


def fused(
    nodes: Sequence[onnx.NodeProto], find: Callable[[onnx.NodeProto], Fusion | None]
) -> list[onnx.NodeProto]:
    """Return the nodes with what stands for those that ``find`` finds in the place of the last.

    ``find`` is asked of every node that is not inside what was found before.
    """
    replaced: dict[int, Sequence[onnx.NodeProto]] = {}
    dropped: set[int] = set()
    for node in nodes:
        found = find(node) if id(node) not in dropped else None
        if found is not None:
            replaced[id(found.nodes[-1])] = found.made
            dropped.update(id(inner) for inner in found.nodes[:-1])
    return [
        made for node in nodes if id(node) not in dropped for made in replaced.get(id(node), [node])
    ]


def without_unread(
    nodes: Sequence[onnx.NodeProto],
    outputs: Iterable[str],
    may_go: Callable[[onnx.NodeProto], bool] = lambda node: True,
) -> list[onnx.NodeProto]:
    """Return nodes, in order, without those whose results nobody reads.

    ``outputs`` are the model's; nodes of which ``may_go`` says no stay.
    """
    needed, kept = set(outputs), []
    for node in reversed(nodes):
        if may_go(node) and needed.isdisjoint(node.output):
            continue
        needed.update(reads(node))
        kept.append(node)
    return kept[::-1]


class DefUse:
    """The nodes around each tensor.

    Parameters
    ----------
    nodes
        All of a model.
    uses
        How often each tensor is read, by nodes or as an output.
    """

    def __init__(self, nodes: Sequence[onnx.NodeProto], uses: Mapping[str, int]) -> None:
        self.uses = uses
        self.producers = {node.output[0]: node for node in nodes if len(node.output) == 1}
        """By tensor, of nodes with one output."""
        self.readers: dict[str, list[onnx.NodeProto]] = {}
        for node in nodes:
            for name in reads(node):
                self.readers.setdefault(name, []).append(node)

    def made(self, name: str, op_type: str) -> onnx.NodeProto | None:
        """Return what makes a tensor, if it is such an operator."""
        node = self.producers.get(name)
        return node if node is not None and node.op_type == op_type else None

    def only_reader(self, name: str, op_type: str) -> onnx.NodeProto | None:
        """Return what alone reads a tensor, if it is such an operator."""
        found = self.readers.get(name, [])
        if len(found) != 1 or self.uses[name] != 1 or found[0].op_type != op_type:
            return None
        return found[0]

    def square(self, name: str, constants: Mapping[str, Array]) -> onnx.NodeProto | None:
        """Return what makes a tensor, if it is the square of its first input."""
        node = self.made(name, "Mul")
        if node is not None:
            return node if node.input[0] == node.input[1] else None
        node = self.made(name, "Pow")
        exponent = constants.get(node.input[1]) if node is not None else None
        return node if exponent is not None and np.all(exponent == 2) else None

    def is_closed(self, nodes: Sequence[onnx.NodeProto]) -> bool:
        """Return whether nobody else reads what nodes make, but for the last one of them."""
        inside = {id(node) for node in nodes}
        return all(
            self.uses[name] == len(self.readers.get(name, ()))
            and all(id(reader) in inside for reader in self.readers.get(name, ()))
            for node in nodes[:-1]
            for name in node.output
        )


def kept_axes(node: onnx.NodeProto, constants: Mapping[str, Array]) -> list[int] | None:
    """Return the axes of a reduction, if these are known and stay as ones of size 1.

    They are an attribute, or an input from some operator set on.
    """
    keeps = all(item.i for item in node.attribute if item.name == "keepdims")
    return reduced_axes(node, constants) if keeps else None


def reduced_axes(node: onnx.NodeProto, constants: Mapping[str, Array]) -> list[int] | None:
    """Return the axes of a reduction, if it says them, and they are known."""
    for item in node.attribute:
        if item.name == "axes":
            return list(item.ints)
    value = constants.get(node.input[1]) if len(node.input) > 1 else None
    return None if value is None else [int(axis) for axis in value.ravel()]


def reading(node: onnx.NodeProto, other: Mapping[str, str]) -> onnx.NodeProto:
    """Return a node that reads other tensors in place of those that are named."""
    if other.keys().isdisjoint(node.input):
        return node
    made = onnx.NodeProto()
    made.CopyFrom(node)
    made.input[:] = [other.get(name, name) for name in node.input]
    return made


def attributes_of(node: onnx.NodeProto) -> dict[str, Any]:
    """Return the attributes of a node as another node may be made with them."""
    return {item.name: helper.get_attribute_value(item) for item in node.attribute}


def with_origin(made: onnx.NodeProto, node: onnx.NodeProto) -> onnx.NodeProto:
    """Return a node with what another one says of where it comes from."""
    made.doc_string = node.doc_string
    made.metadata_props.extend(node.metadata_props)
    return made
