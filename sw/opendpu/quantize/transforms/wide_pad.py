# SPDX-License-Identifier: Apache-2.0
"""Depthwise convolutions with more padding than instructions have, padded by an op in front.

Instructions have four bits for rows and columns of zeros before a map: enough for 31 taps. Kernels
of sequences are longer (QuartzNet, Citrinet); of their taps the compiler makes as many passes as it
needs, but all of them begin at the first column.
"""

from collections.abc import Collection

from opendpu.ir import Graph, Node
from opendpu.ops.window import explicit_pad
from opendpu.quantize.layers import has_constant_weights
from opendpu_arch.isa import Alu

KIND = "depthwise-conv2d"
MOST_PAD = min(Alu.values_of(name)[-1] for name in ("pad_top", "pad_left"))
"""Rows or columns of zeros before a map that an instruction can say."""


def pad_outside(graph: Graph, floating: Collection[str] = ()) -> int:
    """Pad in front of what has more padding, in place; return how often.

    Ops that are ``floating`` stay as they are.
    """
    found = [
        node
        for node in graph
        if node.kind == KIND and node.name not in floating and _is_wide(graph, node)
    ]
    for node in found:
        _pad(graph, node)
    if found:
        graph.sort()
    return len(found)


def _is_wide(graph: Graph, node: Node) -> bool:
    left, _, top, _ = _pads(graph, node)
    return max(left, top) > MOST_PAD and has_constant_weights(graph, node)


def _pads(graph: Graph, node: Node) -> list[int]:
    """Return left, right, top and bottom padding."""
    return explicit_pad(node, graph[node.inputs["input"][0]].shape)


def _pad(graph: Graph, node: Node) -> None:
    left, right, top, bottom = _pads(graph, node)
    (source,) = node.inputs["input"]
    batch, rows, columns, channels = graph[source].shape
    shape = (batch, top + rows + bottom, left + columns + right, channels)
    amounts = [0, 0, top, bottom, left, right, 0, 0]
    attrs = {"paddings": amounts, "mode": "CONSTANT", "constant_values": [0.0] * 8}
    made = graph.add(
        graph.unique(f"{node.name}_padded"), "pad", shape, {"input": [source]}, attrs,
        origin=node.origin,
    )  # fmt: skip
    node.inputs["input"] = [made.name]
    node.attrs = {**node.attrs, "pad": [0, 0, 0, 0], "pad_mode": "FLOOR"}
