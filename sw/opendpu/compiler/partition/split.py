# SPDX-License-Identifier: Apache-2.0
"""Which ops run on the DPU, in which subgraph, and why the others do not."""

from collections.abc import Mapping, Sequence

from opendpu.compiler.constraints import reason
from opendpu.compiler.fixed import COMPUTE, CONSTANT, USER
from opendpu.compiler.partition.units import Unit, levels_of, turns_of, units_of
from opendpu.compiler.partition.value import Part, Partition
from opendpu.compiler.plugins import Claim
from opendpu.ir import Graph, Node
from opendpu_arch.target import Target

ALONE = "no op of the DPU is next to it; one that computes would lift it"


def partition(
    graph: Graph,
    target: Target,
    refused: Mapping[str, str],
    taken: Mapping[str, int] | None = None,
    claims: Sequence[Claim] = (),
) -> Partition:
    """Split a fixed-point graph by device.

    ``refused`` holds ops, with reasons, that later passes could not place on the DPU; ``taken``
    those of plug-ins, by number of their claim in ``claims``.
    """
    taken = taken or {}
    reasons: dict[str, str] = {}
    for node in graph:
        if node.kind in (*USER, *CONSTANT, "fix2float", "float2fix") or node.name in taken:
            continue
        why = refused.get(node.name) or reason(node, graph, target)
        if why is not None:
            reasons[node.name] = why
    units = units_of(graph, taken)
    while True:
        elsewhere = reasons.keys() | taken.keys()
        for_dpu = {n for u in units for n in u.names if on_dpu(graph[n], elsewhere)}
        levels = levels_of(units, for_dpu)
        idle = _idle(graph, units, levels)
        if not idle:
            break
        for name in idle:
            reasons[name] = ALONE
    parts = [Part(device="USER", nodes=(n.name,)) for n in graph if n.kind in USER]
    place = {name: number for number, name in enumerate(graph.nodes)}
    turns = turns_of(units, levels)
    for level, turn in sorted(set(zip(levels, turns, strict=True))):
        here = [u for n, u in enumerate(units) if (levels[n], turns[n]) == (level, turn)]
        names = [n for u in here if u.claim is None for n in u.names]
        if names:
            device = "DPU" if level % 2 else "CPU"
            parts.append(Part(device=device, nodes=tuple(sorted(names, key=place.__getitem__))))
        parts += [_claimed(unit, claims[unit.claim]) for unit in here if unit.claim is not None]
    return Partition(parts=tuple(parts), reasons=reasons)


def on_dpu(node: Node, elsewhere: Mapping[str, object] | set[str]) -> bool:
    """Tell whether an op that is no constant and no input runs on the DPU."""
    return node.name not in elsewhere and node.kind not in ("fix2float", "float2fix")


def _claimed(unit: Unit, claim: Claim) -> Part:
    return Part(device=claim.device, nodes=unit.names, name=claim.name, attrs=claim.attrs)


def _idle(graph: Graph, units: Sequence[Unit], levels: Sequence[int]) -> list[str]:
    """Return the ops of DPU parts in which nothing is computed."""
    places = {name: levels[n] for n, unit in enumerate(units) for name in unit.names}
    busy = {level for name, level in places.items() if graph[name].kind in COMPUTE}
    return [name for name, level in places.items() if level % 2 and level not in busy]
