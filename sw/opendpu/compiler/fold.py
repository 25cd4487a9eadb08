# SPDX-License-Identifier: Apache-2.0
"""Pass: drop what has no effect from a quantized graph, and what no output needs; spread int8."""

from opendpu.compiler.spread import spread
from opendpu.ir import Draft, Node

SAME_SHAPE = ("reshape", "flatten", "squeeze", "resize")
"""Kinds that do nothing where the result has the shape of the input."""


def fold(quantized: Draft) -> Draft:
    """Return the graph without ops that pass their input on; outputs keep their names.

    Ops that move quantized data get a ``fix`` on either side, see :mod:`opendpu.compiler.spread`.
    """
    draft = quantized.copy()
    for node in draft:
        if _has_no_effect(node, draft) and node.name not in draft.outputs:
            draft.replace(node.name, node.inputs["input"][0])
            del draft.nodes[node.name]
    draft.prune()
    spread(draft)
    return draft


def _has_no_effect(node: Node, draft: Draft) -> bool:
    sources = node.inputs.get("input", [])
    if len(sources) != 1 or len(node.sources()) != 1:
        return False
    source = draft[sources[0]]
    if node.kind in ("identity", "concat"):
        return True
    if node.kind == "fix":
        return source.kind == "fix" and source.attrs == node.attrs
    return node.kind in SAME_SHAPE and node.shape == source.shape
