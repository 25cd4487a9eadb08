# SPDX-License-Identifier: Apache-2.0
"""Operators of TorchDynamo's graphs that write into their first argument."""

import operator

import torch

_IN_PLACE = frozenset(
    getattr(operator, name)
    for name in ("iadd", "isub", "imul", "itruediv", "ifloordiv", "ipow", "setitem")
)


def is_in_place(node: torch.fx.Node) -> bool:
    """Tell whether a node writes into its first argument."""
    if node.op == "call_method":
        name = str(node.target)
        return name.endswith("_") and not name.endswith("__")
    return node.op == "call_function" and node.target in _IN_PLACE


def written(graph: torch.fx.Graph) -> set[torch.fx.Node]:
    """Return the nodes of a graph whose values are written into."""
    return {
        node.args[0]
        for node in graph.nodes
        if is_in_place(node) and node.args and isinstance(node.args[0], torch.fx.Node)
    }
