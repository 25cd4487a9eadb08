# SPDX-License-Identifier: Apache-2.0
"""Whether an op is on the DPU by a margin that other scales could use up."""

import dataclasses
from collections.abc import Iterator

from opendpu.compiler.constraints import CONSTRAINTS
from opendpu.compiler.fixed import CONSTANT, DEPTHWISE, is_fixed, point_of
from opendpu.compiler.legalize.affine import MAX_LEFT
from opendpu.ir import FixedGraph, Node
from opendpu_arch.target import Target

MARGIN = 4
"""Bits by which a fix point may be off that was chosen without data."""
MADE_LEGAL = ("layer_shifts",)
"""Constraints that the quantizer sees to, whatever the data."""
LEGAL_ALONE = ("sigmoid_shifts", "sigmoid_bound")
"""Those that it sees to where the result shares its scale with no other tensor."""


def depends_on_scales(node: Node, graph: FixedGraph, target: Target, *, shared: bool) -> bool:
    """Return whether the DPU could not have the op with fix points up to ``MARGIN`` bits off.

    One tensor is changed at a time, the result or an input; then all alike, because some limits
    hold for either. ``shared`` says whether others have the scale of the result.
    """
    safe = MADE_LEGAL if shared else (*MADE_LEGAL, *LEGAL_ALONE)
    checks = [
        one.check
        for one in CONSTRAINTS
        if one.scales and node.kind in one.kinds and one.name not in safe
    ]
    if _nearly_too_fine(node, graph):
        return True
    return bool(checks) and any(
        check(other, probe, target) is not None
        for other, probe in _variants(node, graph)
        for check in checks
    )


def _nearly_too_fine(node: Node, graph: FixedGraph) -> bool:
    """Return whether a factor of one pixel, see :mod:`.legalize.affine`, shifts left nearly enough.

    That limit is one of legalization, which makes no op of what is beyond it.
    """
    if node.kind not in DEPTHWISE or list(node.attrs.get("kernel", ())) != [1, 1]:
        return False
    left = point_of(node) - point_of(graph[node.inputs["input"][0]])
    return left > MAX_LEFT - MARGIN


def _variants(node: Node, graph: FixedGraph) -> Iterator[tuple[Node, FixedGraph]]:
    """Yield the op, and a graph with what it reads, with one fix point moved, or all."""
    sources = [graph[name] for name in dict.fromkeys(node.sources())]
    read = (s.name for s in sources if is_fixed(s) and s.kind not in CONSTANT)
    every = (node.name, *read)
    for moved in (*((name,) for name in every), every):
        for bits in (-MARGIN, -1, 1, MARGIN):
            probe = FixedGraph(graph.name)
            for one in (*sources, node):
                probe.nodes[one.name] = _moved(one, bits) if one.name in moved else one
            yield probe[node.name], probe


def _moved(node: Node, bits: int) -> Node:
    scale = node.quantization.at(point_of(node) + bits)
    return dataclasses.replace(node, type=node.type.with_quantization(scale))
