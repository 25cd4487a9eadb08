# SPDX-License-Identifier: Apache-2.0
"""What stays float: what the DPU has not, what only moves such data, and what is not worth it."""

from collections.abc import Collection, Iterable, Mapping

from opendpu.ir import Graph, Node
from opendpu.ir.types import FLOAT32
from opendpu.ops import CONSTANTS, SOURCES, operator_of
from opendpu.ops.cost import HANDOVER_SECONDS, cpu_seconds, elements, handover_seconds, macs
from opendpu.quantize.layers import has_constant_weights, is_layer
from opendpu.quantize.placement.groups import gives_integers

JOINS = (
    "it joins results of different scales for an output, so that it stays in float; join_outputs "
    "(nndct_join_outputs of scripts for PyTorch), or more layers behind it, would lift it"
)
MOVES = (
    "it only moves data between ops of the CPU, so that it stays in float; these on the DPU would "
    "lift it"
)
COSTS = (
    "it stands between ops of the CPU, and two hand-overs cost more than it takes there; these on "
    "the DPU would lift it"
)


def floating_ops(
    graph: Graph,
    kept: Mapping[str, str] | None = None,
    tabulated: Collection[str] = (),
    *,
    join_outputs: bool = False,
) -> dict[str, str]:
    """Return the ops of a float graph that are computed in float when it is quantized.

    ``tabulated`` are ops that the target has as tables, whatever they are.

    Each has a reason, but for what the DPU cannot compute, where the compiler has its own.

    - What the DPU has not: unknown operators, operands that are computed where the engines need
      constants, and other types than float32.
    - Ops that only move data, where an input is float or all readers are.
    - Concatenations from which data is only moved to outputs, unless ``join_outputs``: what they
      join keeps its own scale.
    - Groups of ops between float ones that cost more to hand over than to compute, see
      :func:`_costs_more`.
    - Inputs that only float ops read.
    - Those that are ``kept`` in float anyway, with their reasons.
    """
    users = graph.consumer_map()
    found = {
        node.name: ""
        for node in graph
        if node.kind not in CONSTANTS and _only_cpu(graph, node, tabulated)
    }
    found = {**(kept or {}), **found}
    tails = set() if join_outputs else _tails(graph, users)
    found |= {
        node.name: JOINS
        for node in graph
        if node.name in tails and _joins(node) and len(_origins(graph, node)) > 1
    }
    while True:
        before = len(found)
        _spread(graph, users, found)
        for part in _parts(graph, users, found):
            if _costs_more(graph, users, found, part):
                found |= dict.fromkeys(part, COSTS)
        if len(found) == before:
            return found


def _only_cpu(graph: Graph, node: Node, tabulated: Collection[str]) -> bool:
    """Return whether only the CPU can compute an op, or hold an input."""
    if node.type.dtype != FLOAT32 and not gives_integers(node):
        return True
    if node.kind in SOURCES:
        return False
    if any(graph[name].type.dtype != FLOAT32 for name in node.sources()):
        return True
    if node.name in tabulated:
        return False
    if not operator_of(node).on_dpu:
        return True
    return is_layer(node) and not has_constant_weights(graph, node)


def _joins(node: Node) -> bool:
    return operator_of(node).moves(node) and len(node.inputs.get("input", ())) > 1


def _tails(graph: Graph, users: dict[str, list[Node]]) -> set[str]:
    """Return the ops that move data to outputs, with nothing else behind them."""
    found: set[str] = set()
    for node in reversed(graph.nodes.values()):
        read = users[node.name]
        moves = node.kind not in (*SOURCES, *CONSTANTS) and operator_of(node).moves(node)
        if moves and (read or node.name in graph.outputs) and all(u.name in found for u in read):
            found.add(node.name)
    return found


def _origins(graph: Graph, node: Node) -> set[str]:
    """Return the ops that computed what an op moves; constants do not count."""
    found: set[str] = set()
    waiting = list(node.inputs["input"])
    while waiting:
        source = graph[waiting.pop()]
        if source.kind not in SOURCES and operator_of(source).moves(source):
            waiting += source.inputs["input"]
        elif source.value is None:
            found.add(source.name)
    return found


def _spread(graph: Graph, users: dict[str, list[Node]], found: dict[str, str]) -> None:
    """Add what only moves float data, and inputs that only float ops read."""
    while True:
        before = len(found)
        for node in (*graph, *reversed(graph.nodes.values())):
            if node.name in found or node.kind in CONSTANTS:
                continue
            read = users[node.name]
            unread = not read or node.name in graph.outputs
            idle = not unread and all(user.name in found for user in read)
            if node.kind in SOURCES:
                moved = idle or not read
            else:
                sources = [graph[name] for name in node.inputs.get("input", ())]
                fed = any(s.name in found and s.kind not in SOURCES for s in sources)
                moved = operator_of(node).moves(node) and (idle or fed)
            if moved:
                found[node.name] = "" if node.kind in SOURCES else MOVES
        if len(found) == before:
            return


def _parts(
    graph: Graph, users: dict[str, list[Node]], found: Collection[str]
) -> Iterable[set[str]]:
    """Yield the ops of the DPU that are connected with each other."""
    seen: set[str] = set()
    for node in graph:
        if node.name in seen or not _computes(graph, node.name, found):
            continue
        part, waiting = set(), [node.name]
        while waiting:
            name = waiting.pop()
            if name in part:
                continue
            part.add(name)
            near = [*graph[name].sources(), *(user.name for user in users[name])]
            waiting += [n for n in near if n not in part and _computes(graph, n, found)]
        seen |= part
        yield part


def _computes(graph: Graph, name: str, found: Collection[str]) -> bool:
    return name not in found and graph[name].kind not in (*SOURCES, *CONSTANTS)


def _costs_more(
    graph: Graph, users: dict[str, list[Node]], found: Collection[str], part: set[str]
) -> bool:
    """Return whether ops between float ones cost more to hand over to the DPU than to compute.

    Two hand-overs and every element that crosses, against the CPU's time for elements and
    multiply-accumulates (:mod:`opendpu.ops.cost`); the DPU's own time is small beside these.
    Between inputs and float ops there is one, and only ops without multiply-accumulates stay
    there: what is left of preprocessing, whose ranges, of degrees or seconds, int8 has no room for.
    """
    sources = {s for name in part for s in graph[name].sources() if graph[s].value is None} - part
    fed = {s for s in sources if graph[s].kind in SOURCES}
    if not sources or not (sources - fed) <= set(found):
        return False
    leaving = [
        name
        for name in part
        if name in graph.outputs or any(user.name not in part for user in users[name])
    ]
    crossing = sum(elements(graph[name]) for name in (*sources, *leaving))
    work = sum(macs(graph[name], graph) for name in part)
    if fed and (work or any(name in graph.outputs for name in leaving)):
        return False
    own = cpu_seconds(work, sum(elements(graph[name]) for name in part))
    second = 0.0 if fed else HANDOVER_SECONDS
    return own < handover_seconds(crossing) + second
