# SPDX-License-Identifier: Apache-2.0
"""Smaller graphs with the same trouble: one output, and inputs where something was computed."""

from collections.abc import Callable, Iterator

from opendpu.ir import QuantizedGraph


def shrink(graph: QuantizedGraph, fails: Callable[[QuantizedGraph], bool]) -> QuantizedGraph:
    """Return the smallest graph found for which ``fails`` holds, as it does for ``graph``."""
    while True:
        for smaller in _smaller(graph):
            if len(smaller.nodes) < len(graph.nodes) and fails(smaller):
                graph = smaller
                break
        else:
            return graph


def _smaller(graph: QuantizedGraph) -> Iterator[QuantizedGraph]:
    fixes = [n.name for n in graph if n.kind == "fix" and graph[n.inputs["input"][0]].value is None]
    for name in fixes:  # first the shortest
        made = graph.copy()
        made.outputs = [name]
        yield _pruned(made)
    for name in reversed(fixes):
        if graph[graph[name].inputs["input"][0]].kind != "data":
            yield _pruned(_cut_at(graph, name))
    if len(graph.outputs) > 1:
        for name in graph.outputs:
            made = graph.copy()
            made.outputs = [n for n in graph.outputs if n != name]
            yield _pruned(made)


def _pruned(graph: QuantizedGraph) -> QuantizedGraph:
    """Drop what is not needed, inputs too."""
    graph.prune()
    used = {s for node in graph for s in node.sources()}
    graph.nodes = {n.name: n for n in graph if n.kind != "data" or n.name in used}
    return graph


def _cut_at(graph: QuantizedGraph, name: str) -> QuantizedGraph:
    """Return the graph with an input in the place of what is before a ``fix``."""
    made = QuantizedGraph(graph.name)
    made.outputs = [n for n in graph.outputs if n != name] or list(graph.outputs)
    for node in graph:
        inputs = node.inputs
        if node.name == name:
            made.add(f"x_{name}", "data", node.shape)
            inputs = {"input": [f"x_{name}"]}
        made.add(node.name, node.kind, node.type, inputs, node.attrs, node.value)
    return made


def listing(graph: QuantizedGraph) -> str:
    """Return the ops of a quantized graph as text, constants only as inputs of others."""
    lines = []
    for node in graph:
        before = graph[node.inputs["input"][0]] if node.kind == "fix" else node
        if before.value is not None:
            continue
        sources = ", ".join(f"{n} {list(graph[n].shape)}" for n in node.sources())
        attrs = {k: v for k, v in node.attrs.items() if k != "pad_mode"}
        if node.kind == "fix":
            found = node.quantization
            attrs |= (
                {"fix_point": found.fix_point} if found.is_power_of_two
                else {"scale": found.scale[0], "zero_point": found.zero_point[0]}
            )  # fmt: skip
        lines.append(f"{node.name} = {node.kind}({sources}) {list(node.shape)} {attrs}")
    return "\n".join([*lines, f"outputs {graph.outputs}"])
