# SPDX-License-Identifier: Apache-2.0
"""Positions that fit the shift fields of the DPU's instructions."""

from opendpu.ir import Graph, Node
from opendpu.quantize.calibrate import best_position
from opendpu.quantize.fold import LAYERS
from opendpu.quantize.points import Points, layer_output
from opendpu_arch.errors import GraphError

SHIFT_CUT = range(64)
"""Values of ``shift_cut`` = weights + input - output."""

SHIFT_BIAS = range(21)
"""Values of ``shift_bias`` = weights + input - bias + 1."""

FINEST_BIAS = 4
"""Fractional bits that a bias has at most beyond the result; leaves room to correct it."""

SHIFT_READ = range(16)
"""Values of ``shift_read`` = input - smallest input, of an elementwise addition."""


def layers(graph: Graph) -> list[Node]:
    """Return the layers of a graph: the ops with weights."""
    return [node for node in graph if node.kind in LAYERS]


def weight_positions(graph: Graph, method: str) -> dict[str, int]:
    """Return the position of the weights of every layer, by layer."""
    weights = {}
    for layer in layers(graph):
        array = graph[layer.inputs["weights"][0]].value
        assert array is not None
        weights[layer.name] = best_position(array, method=_constant_method(method))
    return weights


def settle(
    graph: Graph, points: Points, positions: dict[str, int], weights: dict[str, int]
) -> dict[str, int]:
    """Return positions of weights and biases by constant, after making all of them legal.

    ``positions`` of activations are lowered in place where a layer's result cannot be that fine:
    the accumulator has no more fractional bits than input and weights together.
    """
    for _ in range(len(points.names) + 1):
        if not _lower(graph, points, positions, weights):
            break
    result = {}
    for layer in layers(graph):
        source = positions[layer.inputs["input"][0]]
        accumulator = weights[layer.name] + source
        cut = accumulator - positions[layer_output(graph, layer, points)]
        if cut not in SHIFT_CUT:
            raise GraphError(
                f"layer {layer.name!r} needs shift_cut {cut}, but it must be in "
                f"0..{SHIFT_CUT[-1]}; the ranges of its input and result are too "
                "far apart"
            )
        result[layer.inputs["weights"][0]] = weights[layer.name]
        if layer.inputs.get("bias"):
            bias = graph[layer.inputs["bias"][0]].value
            assert bias is not None
            wanted = best_position(bias, method="nonoverflow")
            wanted = min(wanted, accumulator - cut + FINEST_BIAS)
            most, least = accumulator + 1, accumulator + 1 - SHIFT_BIAS[-1]
            result[layer.inputs["bias"][0]] = max(least, min(wanted, most))
    return result


def _constant_method(method: str) -> str:
    return "nonoverflow" if method == "nonoverflow" else "minmse"


def _lower(
    graph: Graph, points: Points, positions: dict[str, int], weights: dict[str, int]
) -> bool:
    """Lower positions that are too fine; return whether there was one."""
    changed = False
    for node in graph:
        if node.kind in LAYERS:
            limit = weights[node.name] + positions[node.inputs["input"][0]]
            changed |= _limit(points, positions, layer_output(graph, node, points), limit)
        elif node.kind == "add":
            sources = [name for name in node.inputs["input"] if name in positions]
            if sources:
                limit = min(positions[name] for name in sources) + SHIFT_READ[-1]
                for name in sources:
                    changed |= _limit(points, positions, name, limit)
    return changed


def _limit(points: Points, positions: dict[str, int], name: str, limit: int) -> bool:
    if positions[name] <= limit:
        return False
    for member in points.members(points.leader[name]):
        positions[member] = limit
    return True
