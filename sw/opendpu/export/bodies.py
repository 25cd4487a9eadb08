# SPDX-License-Identifier: Apache-2.0
"""Values that bodies of nodes read, kept from an optimizer that does not see who reads them.

onnxruntime's ``QDQPropagationTransformer`` takes quantizing operators over nodes that move data, to
every reader of what these make. Bodies of If, Loop and Scan read values by name only, where it
looks for an input of the node: an assertion fails (1.31), and with it the process. A maximum of
one operand is the same value, and it ends there.
"""

from collections.abc import Iterable, Mapping

import onnx
from onnx import helper

from opendpu.frontend.instances import renamed
from opendpu.frontend.model_file import captured

MOVES = frozenset({"Flatten", "MaxPool", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"})
"""Operators that it moves quantization over, or may."""


def shielded(nodes: Iterable[onnx.NodeProto]) -> list[onnx.NodeProto]:
    """Return nodes, with a maximum behind moved values that were quantized and that bodies read."""
    given = list(nodes)
    makers = {output: node for node in given for output in node.output}
    inside = dict.fromkeys(name for node in given for name in captured(node))
    names = {name: f"{name}_captured" for name in inside if _was_quantized(name, makers)}
    found = []
    for node in given:
        found.append(_with_bodies(node, names) if names else node)
        found += [helper.make_node("Max", [name], [names[name]], f"{name}_captured")
                  for name in node.output if name in names]  # fmt: skip
    return found


def _was_quantized(name: str, makers: Mapping[str, onnx.NodeProto]) -> bool:
    """Return whether a value is one that was quantized, moved by at least one node."""
    node = makers.get(name)
    moved = False
    while node is not None and node.op_type in MOVES:
        moved, node = True, makers.get(node.input[0])
    return moved and node is not None and node.op_type == "DequantizeLinear"


def _with_bodies(node: onnx.NodeProto, names: Mapping[str, str]) -> onnx.NodeProto:
    """Return a node whose bodies read other values; its own inputs and outputs stay."""
    made = renamed(node, names)
    made.input[:], made.output[:] = node.input, node.output
    return made
