# SPDX-License-Identifier: Apache-2.0
"""Smaller graphs with the same trouble: one output, and inputs where something was computed."""

from collections.abc import Callable, Iterator

from opendpu.ir import Graph


def shrink(draft: Graph, fails: Callable[[Graph], bool]) -> Graph:
    """Return the smallest graph found for which ``fails`` holds, as it does for ``draft``."""
    while True:
        for smaller in _smaller(draft):
            if len(smaller.nodes) < len(draft.nodes) and fails(smaller):
                draft = smaller
                break
        else:
            return draft


def _smaller(draft: Graph) -> Iterator[Graph]:
    fixes = [n.name for n in draft if n.kind == "fix" and draft[n.inputs["input"][0]].value is None]
    for name in fixes:  # first the shortest
        made = draft.copy()
        made.outputs = [name]
        yield _pruned(made)
    for name in reversed(fixes):
        if draft[draft[name].inputs["input"][0]].kind != "data":
            yield _pruned(_cut_at(draft, name))
    if len(draft.outputs) > 1:
        for name in draft.outputs:
            made = draft.copy()
            made.outputs = [n for n in draft.outputs if n != name]
            yield _pruned(made)


def _pruned(draft: Graph) -> Graph:
    """Drop what is not needed, inputs too."""
    draft.prune()
    used = {s for node in draft for s in node.sources()}
    draft.nodes = {n.name: n for n in draft if n.kind != "data" or n.name in used}
    return draft


def _cut_at(draft: Graph, name: str) -> Graph:
    """Return the graph with an input in the place of what is before a ``fix``."""
    made = Graph(draft.name)
    made.outputs = [n for n in draft.outputs if n != name] or list(draft.outputs)
    for node in draft:
        inputs = node.inputs
        if node.name == name:
            made.add(f"x_{name}", "data", node.shape)
            inputs = {"input": [f"x_{name}"]}
        made.add(node.name, node.kind, node.shape, inputs, node.attrs, node.value)
    return made


def listing(draft: Graph) -> str:
    """Return the ops of a quantized graph as text, constants only as inputs of others."""
    lines = []
    for node in draft:
        before = draft[node.inputs["input"][0]] if node.kind == "fix" else node
        if before.value is not None:
            continue
        sources = ", ".join(f"{n} {list(draft[n].shape)}" for n in node.sources())
        plain = ("bit_width", "if_signed", "round_mode", "pad_mode")
        attrs = {k: v for k, v in node.attrs.items() if k not in plain}
        lines.append(f"{node.name} = {node.kind}({sources}) {list(node.shape)} {attrs}")
    return "\n".join([*lines, f"outputs {draft.outputs}"])
