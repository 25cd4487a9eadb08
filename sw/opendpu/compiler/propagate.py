# SPDX-License-Identifier: Apache-2.0
"""Pass ``fold``, second half: scales propagated across ops that only move data.

Quantizers leave out ``fix`` ops where they change nothing: AMD's has none between a transpose and
the convolution behind it, and one behind a concatenation for all its inputs. Rounding an element
does not depend on its place, and keeps the order of two elements, so a ``fix`` may stand on either
side of such ops; with one on both sides the DPU can have them and their neighbours.
"""

from opendpu.ir import Graph, Node
from opendpu.ops import operator_of


def propagate_scales(graph: Graph) -> None:
    """Put ``fix`` ops on the other side of ops that move data; no value changes."""
    waiting = [node for node in graph if node.kind == "fix"]
    while waiting:
        waiting += _before(waiting.pop(), graph)
    graph.sort()
    for node in graph:
        _behind(node, graph)
    graph.sort()


def _before(fix: Node, graph: Graph) -> list[Node]:
    """Put a fix in front of what moves data to this one; return the new ones."""
    node = graph[fix.inputs["input"][0]]
    if not operator_of(node).keeps_values(node) or graph.consumers(node.name) != [fix]:
        return []
    if node.name in graph.outputs:
        return []
    made = []
    for place, name in enumerate(node.inputs["input"]):
        if graph[name].kind != "fix":
            made.append(_add(name, fix, graph))
            node.inputs["input"][place] = made[-1].name
    return made


def _behind(node: Node, graph: Graph) -> None:
    """Put a fix behind an op that moves quantized data to an op of the DPU."""
    if not operator_of(node).keeps_values(node) or node.name in graph.outputs:
        return
    sources = [graph[name] for name in node.inputs["input"]]
    if any(s.kind != "fix" or s.quantization != sources[0].quantization for s in sources):
        return
    users = graph.consumers(node.name)
    if any(user.kind == "fix" for user in users):
        return
    if _reaches_dpu(node, graph):
        fix = _add(node.name, sources[0], graph)
        graph.replace(node.name, fix.name)
        fix.inputs["input"] = [node.name]


def _reaches_dpu(node: Node, graph: Graph) -> bool:
    """Tell whether an op of the DPU reads a result, at once or behind others that move data."""
    return any(
        _reaches_dpu(user, graph) if operator_of(user).moves(user) else operator_of(user).on_dpu
        for user in graph.consumers(node.name)
    )


def _add(name: str, like: Node, graph: Graph) -> Node:
    return graph.add_fix(f"{name}_fix", name, like.quantization)
