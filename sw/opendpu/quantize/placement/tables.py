# SPDX-License-Identifier: Apache-2.0
"""Functions of one value that a target with the extension ``table`` computes."""

from opendpu.ir import Graph
from opendpu.ops import SOURCES, operator_of
from opendpu.ops.functions import Function, functions
from opendpu_arch.extensions import Extension
from opendpu_arch.target import Target

GATES = ("hard-sigmoid", "hard-swish")
"""What engines have, but with a rounding before a product with it."""


def has_tables(target: Target | None) -> bool:
    """Return whether a target has the extension."""
    return target is not None and Extension.TABLE in target.extensions


def tabulated(graph: Graph, target: Target | None) -> list[Function]:
    """Return the functions of a float graph that are better computed by a table.

    Those that no engine has, or only with a rounding in the middle. What is computed of the inputs
    stays on the CPU: as int8 they would lose more than their normalization.
    """
    if not has_tables(target):
        return []
    return [
        function
        for function in functions(graph)
        if graph[function.root].kind not in SOURCES and _is_worth_it(graph, function)
    ]


def _is_worth_it(graph: Graph, function: Function) -> bool:
    kinds = [graph[name].kind for name in function.nodes]
    gated = len(kinds) > 1 and any(kind in GATES for kind in kinds)
    gated = gated or "hard-swish" in kinds  # such a graph has it in one piece yet
    return gated or not all(operator_of(kind).on_dpu for kind in kinds)
