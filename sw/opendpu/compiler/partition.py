# SPDX-License-Identifier: Apache-2.0
"""Pass: which ops run on the DPU, in which subgraph, and why the others do not."""

from collections.abc import Mapping

from opendpu.compiler.constraints import reason
from opendpu.compiler.fixed import COMPUTE, CONSTANT, USER
from opendpu.compiler.plan import Part, Partition
from opendpu.ir import Draft, Node
from opendpu_arch.target import Target


def partition(draft: Draft, target: Target, refused: Mapping[str, str]) -> Partition:
    """Split a fixed-point graph by device.

    ``refused`` holds ops, with reasons, that later passes could not place on the DPU.
    """
    reasons: dict[str, str] = {}
    for node in draft:
        if node.kind in (*USER, *CONSTANT, "fix2float", "float2fix"):
            continue
        why = refused.get(node.name) or reason(node, draft, target)
        if why is not None:
            reasons[node.name] = why
    while True:
        levels = _levels(draft, reasons)
        idle = _idle(draft, reasons, levels)
        if not idle:
            break
        for name in idle:
            reasons[name] = "no op of the DPU is next to it"
    parts = [Part(device="USER", nodes=(n.name,)) for n in draft if n.kind in USER]
    for level in range(max(levels.values(), default=0) + 1):
        names = tuple(n.name for n in draft if levels.get(n.name) == level)
        if names:
            parts.append(Part(device="DPU" if level % 2 else "CPU", nodes=names))
    return Partition(parts=tuple(parts), reasons=reasons)


def on_dpu(node: Node, reasons: Mapping[str, str]) -> bool:
    """Tell whether an op that is no constant and no input runs on the DPU."""
    return node.name not in reasons and node.kind not in ("fix2float", "float2fix")


def _levels(draft: Draft, reasons: Mapping[str, str]) -> dict[str, int]:
    """Return the number of the part of every op: odd ones are for the DPU.

    A part only needs parts with lower numbers, so that parts never wait for each other in a ring.
    An op of the DPU gets the least number that has as many DPU parts before it as some path to it
    has, so that there are never more of them than such a path needs.
    """
    levels: dict[str, int] = {}
    for node in draft:
        if node.kind in (*USER, *CONSTANT):
            continue
        parity = 1 if on_dpu(node, reasons) else 0
        least = max((levels[s] for s in node.sources() if s in levels), default=0)
        levels[node.name] = least if least % 2 == parity else least + 1
    return levels


def _idle(draft: Draft, reasons: Mapping[str, str], levels: Mapping[str, int]) -> list[str]:
    """Return the ops of DPU parts in which nothing is computed."""
    busy = {levels[n.name] for n in draft if n.name in levels and n.kind in COMPUTE}
    return [
        n.name
        for n in draft
        if n.name in levels and on_dpu(n, reasons) and levels[n.name] not in busy
    ]
