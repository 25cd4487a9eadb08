# SPDX-License-Identifier: Apache-2.0
"""From a float graph and its fix points to the quantized graph, as AMD's quantizers write it."""

from collections.abc import Mapping

from opendpu.ir import Array, Graph, QuantizedGraph
from opendpu.quantize.scales.grid import GRID, rounded

Rounded = dict[tuple[str, int], Array]
"""Constants on their grid, by name and fix point."""


def fix_name(name: str) -> str:
    """Return the name of the ``fix`` behind an op."""
    return f"{name}_fix"


def insert(
    graph: Graph, fix_points: Mapping[str, int], known: Rounded | None = None
) -> QuantizedGraph:
    """Return a graph with a ``fix`` behind every node that has a fix point.

    The op has 8 signed bits and ``DPU_ROUND``; constants in front of one hold values that are
    already on its grid. ``known`` keeps those of earlier calls.
    """
    known = {} if known is None else known
    result = QuantizedGraph(graph.name)
    result.attrs = dict(graph.attrs)
    behind: dict[str, str] = {}
    for node in graph:
        inputs = {arg: [behind[n] for n in names] for arg, names in node.inputs.items()}
        value, point = node.value, fix_points.get(node.name)
        if value is not None and point is not None:
            if (node.name, point) not in known:
                known[node.name, point] = rounded(value, point)
            value = known[node.name, point]
        made = result.add(
            node.name, node.kind, node.type, inputs, node.attrs, value,
            origin=node.origin, tensor=node.tensor,
        )  # fmt: skip
        made.reason, made.claim = node.reason, node.claim
        behind[node.name] = node.name
        if point is not None:
            fix = result.add_fix(fix_name(node.name), node.name, GRID.at(point))
            behind[node.name] = fix.name
    result.outputs = [behind[name] for name in graph.outputs]
    return result
