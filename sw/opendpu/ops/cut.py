# SPDX-License-Identifier: Apache-2.0
"""Terms of sums of which the DPU drops bits: those much finer than the coarsest one."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from opendpu.ir import Array, Graph, Node
from opendpu.ops.operator import operator_of
from opendpu_arch.numerics import GUARD_BITS


def cut_terms(
    graph: Graph, node: Node, users: Callable[[], Mapping[str, Sequence[Node]]]
) -> dict[str, int]:
    """Return the fix points that the DPU cuts terms of a sum to, by term; none for other ops.

    A sum is the DPU's where all terms are quantized by a power of two and the result is, at once
    or behind a ReLU. Terms are rounded down to ``GUARD_BITS`` more than the coarsest one has.

    Parameters
    ----------
    graph
        A quantized graph; in others no op is such a sum.
    node
        One of its ops.
    users
        Returns the readers of all results; asked only where terms are that far apart.
    """
    if node.kind != "add":
        return {}
    points = {}
    for name in node.inputs["input"]:
        term = graph[name]
        found = term.type.quantization
        if found is None or not found.is_power_of_two:
            return {}
        if term.kind != "fix" and (term.value is None or term.type.is_fixed):
            return {}
        points[name] = found.fix_point
    finest = min(points.values(), default=0) + GUARD_BITS
    finer = {name: finest for name, point in points.items() if point > finest}
    return finer if finer and _is_rounded(node, users()) else {}


def cut(array: Array, point: int) -> Array:
    """Return real numbers rounded down to so many fractional bits, as float32."""
    steps = np.multiply(array, np.float32(2.0**point), dtype=np.float32)
    return np.multiply(np.floor(steps, out=steps), np.float32(2.0**-point), out=steps)


def _is_rounded(node: Node, users: Mapping[str, Sequence[Node]]) -> bool:
    """Return whether a ``fix`` reads a result, or what the same engine makes of it."""
    readers = users[node.name]
    fused = [one for one in readers if one.kind in operator_of(node).fuses]
    behind = (reader for one in fused for reader in users[one.name])
    return any(one.kind == "fix" for one in (*readers, *behind))
