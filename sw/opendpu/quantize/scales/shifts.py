# SPDX-License-Identifier: Apache-2.0
"""Fix points that the shift fields of the DPU's instructions can hold."""

from collections.abc import Mapping

from opendpu.ir import Graph, Node
from opendpu.quantize.config import TensorSpec
from opendpu.quantize.layers import parameters_of
from opendpu.quantize.placement.groups import ScaleGroups
from opendpu.quantize.scales.grid import best_fix_point
from opendpu.quantize.scales.template import template_of
from opendpu_arch import isa
from opendpu_arch.errors import GraphError
from opendpu_arch.legal import MAX_SHIFT_BIAS


def _values(instruction: type[isa.Instruction], name: str) -> range:
    """Return the values of a field."""
    (field,) = (f for f in instruction.bit_fields() if f.name == name)
    return range(field.minimum, field.maximum + 1)


SHIFT_CUT = _values(isa.ConvInit, "shift_cut")
"""Values of ``shift_cut`` = weights + input - output."""

SHIFT_BIAS = range(MAX_SHIFT_BIAS + 1)
"""Values of ``shift_bias`` = weights + input - bias + 1."""

FINEST_BIAS = 4
"""Fractional bits that a bias has at most beyond the result; leaves room to correct it."""

SHIFT_READ = _values(isa.ElewInit, "shift_read")
"""Values of ``shift_read`` = input - smallest input, of an elementwise addition."""


def make_legal(
    graph: Graph,
    groups: ScaleGroups,
    fix_points: dict[str, int],
    weights: Mapping[str, int],
    biases: Mapping[str, TensorSpec],
) -> dict[str, int]:
    """Return fix points of weights and biases by constant, after making all of them legal.

    ``fix_points`` of activations are lowered in place where a layer's result cannot be that fine:
    the accumulator has no more fractional bits than input and weights together. ``biases`` are
    the specifications of biases, by layer.

    Raises
    ------
    GraphError
        Ranges so far apart that no shift bridges them.
    """
    for _ in range(len(groups.names) + 1):
        if not _lower(graph, groups, fix_points, weights):
            break
    result = {}
    for name in groups.results:
        layer = graph[name]
        accumulator = weights[name] + fix_points[layer.inputs["input"][0]]
        cut = accumulator - fix_points[groups.results[name]]
        if cut not in SHIFT_CUT:
            raise GraphError(
                f"layer {name!r} needs shift_cut {cut}, but it must be in "
                f"{SHIFT_CUT[0]}..{SHIFT_CUT[-1]}; the ranges of its input and result are too "
                "far apart"
            )
        arguments = parameters_of(layer)
        result[layer.inputs[arguments.weights][0]] = weights[name]
        for bias in layer.inputs.get(arguments.bias, ()):
            result[bias] = _of_bias(graph[bias], accumulator, cut, biases[name])
    return result


def _of_bias(bias: Node, accumulator: int, cut: int, spec: TensorSpec) -> int:
    assert bias.value is not None
    best = best_fix_point(bias.value, method=spec.method, template=template_of(spec))
    finest = min(best, accumulator - cut + FINEST_BIAS)
    most = accumulator + 1 - SHIFT_BIAS[0]
    return max(accumulator + 1 - SHIFT_BIAS[-1], min(finest, most))


def _lower(
    graph: Graph, groups: ScaleGroups, fix_points: dict[str, int], weights: Mapping[str, int]
) -> bool:
    """Lower fix points that are too fine; return whether there was one."""
    changed = False
    for name, result in groups.results.items():
        limit = weights[name] + fix_points[graph[name].inputs["input"][0]] - SHIFT_CUT[0]
        changed |= _limit(groups, fix_points, result, limit)
    for node in graph:
        sources = [n for n in node.inputs.get("input", ()) if n in fix_points]
        if node.kind == "add" and sources:
            limit = min(fix_points[name] for name in sources) + SHIFT_READ[-1]
            for name in sources:
                changed |= _limit(groups, fix_points, name, limit)
    return changed


def _limit(groups: ScaleGroups, fix_points: dict[str, int], name: str, limit: int) -> bool:
    if fix_points[name] <= limit:
        return False
    fix_points.update(dict.fromkeys(groups.members[groups.group[name]], limit))
    return True
