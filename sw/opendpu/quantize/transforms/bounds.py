# SPDX-License-Identifier: Apache-2.0
"""Maximum and minimum with constants, as ReLU and ReLU6 of a shifted and scaled map.

``max(x, c)`` is ``relu(x - c) + c``, ``min(x, c)`` is ``c - relu(c - x)``, and both, from ``a`` to
``b``, are ``a + (b - a) / 6 * relu6((x - a) * 6 / (b - a))``. What is before the ReLU folds into
the layer that makes ``x``, what is behind it becomes a depthwise convolution of one pixel.
"""

import dataclasses

import numpy as np
import numpy.typing as npt

from opendpu.ir import Graph, Node
from opendpu.quantize.placement.scope import floating_ops

Array = npt.NDArray[np.float64]
LIMIT = 6.0
"""Where ReLU6 ends."""


@dataclasses.dataclass(frozen=True)
class _Bound:
    """A maximum or minimum of a node with a constant a channel."""

    source: str
    limit: Array


def bound(graph: Graph) -> bool:
    """Rewrite maxima and minima of what the DPU makes, in place; tell whether there were any."""
    if not any(node.kind in ("max", "min") for node in graph):
        return False
    floating, changed = set(floating_ops(graph)), False
    for node in list(graph):
        found = _bound_of(graph, node) if node.name in graph.nodes else None
        if found is None or _is_inner(graph, node):
            continue
        inner = _bound_of(graph, graph[found.source])
        both = inner is not None and graph[found.source].kind != node.kind
        both = both and _is_inner(graph, graph[found.source])
        first = inner.source if both and inner is not None else found.source
        if graph[first].kind == "data" or first in floating:
            continue
        if both and inner is not None:
            low, high = found.limit, inner.limit
            if node.kind == "min":
                low, high = high, low
            if np.any(high <= low):
                continue
            step = (high - low) / LIMIT
            _rewrite(graph, node, first, "relu6", (1 / step, -low / step), (step, low))
        else:
            sign = 1.0 if node.kind == "max" else -1.0
            ones = np.full_like(found.limit, sign)
            _rewrite(graph, node, first, "relu", (ones, -sign * found.limit), (ones, found.limit))
        floating.discard(node.name)
        changed = True
    if changed:
        graph.sort()
        graph.prune()
    return changed


def _bound_of(graph: Graph, node: Node) -> _Bound | None:
    """Return what a node bounds and where, if that is a feature map and a constant a channel."""
    names = node.inputs.get("input", [])
    if node.kind not in ("max", "min") or len(names) != 2 or len(node.shape) != 4:
        return None
    values = [graph[name].value for name in names]
    if (values[0] is None) == (values[1] is None):
        return None
    source, value = (names[1], values[0]) if values[1] is None else (names[0], values[1])
    assert value is not None
    channels = node.shape[-1]
    if graph[source].shape != node.shape or value.size not in (1, channels):
        return None
    if value.size > 1 and (not value.shape or value.shape[-1] != channels):
        return None
    limit = np.broadcast_to(value.astype(np.float64).ravel(), (channels,))
    return _Bound(source, limit) if np.all(np.isfinite(limit)) else None


def _is_inner(graph: Graph, node: Node) -> bool:
    """Tell whether only one bound of the other kind takes a result, which makes both of it."""
    if not graph.is_read_once(node.name):
        return False
    (user,) = graph.consumers(node.name)
    return user.kind in {"max", "min"} - {node.kind} and _bound_of(graph, user) is not None


def _rewrite(
    graph: Graph, node: Node, source: str, kind: str, before: tuple[Array, Array],
    behind: tuple[Array, Array],
) -> None:  # fmt: skip
    """Make ``kind`` of a node's source, between two factors and offsets; keep the node's name."""
    inner = graph.add(
        graph.unique(f"{node.name}_from"), "scale", node.type, {"input": [source]}, {"axis": -1},
        origin=node.origin,
    )  # fmt: skip
    middle = graph.add(
        graph.unique(f"{node.name}_{kind}"),
        kind,
        node.type,
        {"input": [inner.name]},
        origin=node.origin,
    )
    node.kind, node.attrs, node.inputs = "scale", {"axis": -1}, {"input": [middle.name]}
    for one, (factor, offset) in ((inner, before), (node, behind)):
        one.inputs["scale"] = [graph.add_const(f"{one.name}_scale", factor).name]
        one.inputs["bias"] = [graph.add_const(f"{one.name}_bias", offset).name]
