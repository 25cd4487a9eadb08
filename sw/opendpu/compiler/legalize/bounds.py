# SPDX-License-Identifier: Apache-2.0
"""Activations that are bounds of what an op requantizes: the extension ``scaled``."""

import dataclasses
import math

from opendpu.compiler.legalize.context import Context
from opendpu.compiler.legalize.multipliers import BOUNDS
from opendpu.ir import Node

RELUS = ("relu", "relu6")
LIMITS = {"max": "low", "min": "high"}
"""Kinds whose result is at least, or at most, a constant."""


def bounded(context: Context, source: Node) -> tuple[Node, Node | None]:
    """Return the op before an activation that is no more than bounds, and that; else none.

    Those are ReLU, ReLU6, and maxima and minima with one constant each. Nobody else reads what
    is before.
    """
    if source.kind in RELUS:
        before = context.graph[source.inputs["input"][0]]
        return (before, source) if len(context.users[before.name]) == 1 else (source, None)
    before, limits = source, {"low": -math.inf, "high": math.inf}
    while before.kind in LIMITS:
        constants = [n for n in before.sources() if context.graph[n].value is not None]
        others = [n for n in before.sources() if n not in constants]
        if len(constants) != 1 or len(others) != 1 or len(context.users[others[0]]) > 1:
            return source, None
        value = context.graph[constants[0]].value
        if value is None or value.size != 1:
            return source, None
        _limit(limits, LIMITS[before.kind], float(value.ravel()[0]))
        before = context.graph[others[0]]
    if before is source:
        return source, None
    return before, dataclasses.replace(source, kind=BOUNDS, attrs=dict(limits))


def _limit(limits: dict[str, float], which: str, value: float) -> None:
    """Add a bound that is applied before those known: what it leaves, they bound."""
    low, high = limits["low"], limits["high"]
    given = (value, math.inf) if which == "low" else (-math.inf, value)
    limits["low"], limits["high"] = (min(max(limit, low), high) for limit in given)
