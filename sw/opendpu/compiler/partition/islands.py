# SPDX-License-Identifier: Apache-2.0
"""Parts of the DPU that cost more than they save: they stay on the CPU."""

from collections.abc import Mapping, Sequence

from opendpu.compiler.fixed import CONSTANT
from opendpu.compiler.partition.split import partition
from opendpu.compiler.partition.value import Part, Partition, PartitionedPart
from opendpu.compiler.plugins import Claim
from opendpu.ir import FixedGraph
from opendpu.ops import cost, operator_of
from opendpu_arch.target import Target

LEAST_SHARE = 0.01
"""A part with this share of the multiply-accumulates stays on the DPU in any case."""


def partition_by_cost(
    graph: FixedGraph,
    target: Target,
    refused: Mapping[str, str],
    taken: Mapping[str, int] | None = None,
    claims: Sequence[Claim] = (),
    least_ops: int = 0,
) -> Partition:
    """Split a fixed-point graph by device; see :func:`opendpu.compiler.partition.partition`.

    A part of the DPU between parts of the CPU joins these where two hand-overs take longer than
    what the DPU saves; one of ``least_ops`` operators or fewer is the CPU's in any case, if that
    is not 0. The first refusals of a graph are final, so this comes to an end.
    """
    reasons = dict(refused)
    every = sum(cost.macs(node, graph) for node in graph)
    while True:
        found = partition(graph, target, reasons, taken, claims)
        islands = {
            name: why
            for number, part in enumerate(found.parts)
            if part.device == "DPU"
            for why in [
                _too_small(part, least_ops)
                or (
                    _is_between(found.parts, number)
                    and _too_dear(PartitionedPart(graph, part), target, every)
                )
            ]
            if why
            for name in part.nodes
        }
        if not islands:
            return found
        reasons |= islands


def _too_small(part: Part, least: int) -> str:
    """Return why a part has too few operators, or nothing."""
    if not least or len(part.nodes) > least:
        return ""
    return (
        f"its part has {len(part.nodes)} operators, and parts with {least} or fewer were asked to "
        "stay on the CPU; a lower number would lift it"
    )


def _is_between(parts: Sequence[Part], number: int) -> bool:
    """Tell whether a part runs between two parts of the CPU."""
    sides = (parts[:number], parts[number + 1 :])
    return all(any(part.device == "CPU" for part in side) for side in sides)


def _too_dear(value: PartitionedPart, target: Target, every: int) -> str:
    """Return why a part had better run on the CPU, or nothing."""
    graph, nodes = value.graph, [value.graph[name] for name in value.part.nodes]
    own = sum(cost.macs(node, graph) for node in nodes)
    if own >= LEAST_SHARE * max(every, 1):
        return ""
    inside = set(value.part.nodes)
    read = {s for node in nodes for s in node.sources() if s not in inside}
    border = [graph[name] for name in read if graph[name].kind not in CONSTANT]
    border += [graph[name] for name in value.outputs]
    elements = sum(cost.elements(node) for node in nodes if not operator_of(node).moves(node))
    on_cpu = cost.cpu_seconds(own, elements)
    moved = sum(cost.elements(node) for node in border)
    on_dpu = cost.dpu_seconds(own, moved, target) + cost.handover_seconds(moved)
    if on_cpu >= on_dpu:
        return ""
    return (
        f"the DPU and two hand-overs would take {on_dpu * 1e6:,.0f} us for this part, the CPU "
        f"{on_cpu * 1e6:,.0f} us; more operators of the DPU beside it would lift it"
    )
