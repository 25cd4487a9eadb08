# SPDX-License-Identifier: Apache-2.0
"""Fix points that the shift fields of the DPU's instructions can hold."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from opendpu.ir import Array, Graph, Node, Quantization
from opendpu.quantize.layers import by_output, parameters_of, weights_of
from opendpu.quantize.placement.groups import ScaleGroups
from opendpu.quantize.scales.grid import FIX_POINTS, best_fix_point
from opendpu.quantize.scales.template import template_of
from opendpu.quantize.tensor_spec import TensorSpec
from opendpu_arch import isa
from opendpu_arch.errors import GraphError
from opendpu_arch.legal import MAX_SHIFT_BIAS
from opendpu_arch.numerics import MAX_CHANNEL_SHIFT, write_shift

Points = npt.NDArray[np.int64]
"""Fix points, one or as many as there are output channels."""

SHIFT_CUT = isa.ConvInit.values_of("shift_cut")
"""Values of ``shift_cut`` = weights + input - output."""

SHIFT_BIAS = range(MAX_SHIFT_BIAS + 1)
"""Values of ``shift_bias`` = weights + input - bias + 1."""

FINEST_BIAS = 4
"""Fractional bits that a bias has at most beyond the result; leaves room to correct it."""

ROOM = 4
"""Units of the result by which the bias of a channel can be corrected, at least."""

SHIFT_READ = isa.ElewInit.values_of("shift_read")
"""Values of ``shift_read`` = input - smallest input, of an elementwise addition."""

SHIFT_WRITE = -min(map(write_shift, isa.Elew.values_of("shift_write")))
"""Bits by which results of elementwise instructions go to the left at most (``shift_write``)."""


def make_legal(
    graph: Graph,
    groups: ScaleGroups,
    fix_points: dict[str, int],
    weights: Mapping[str, Quantization],
    biases: Mapping[str, TensorSpec],
    known: dict[str, Points] | None = None,
) -> dict[str, Quantization]:
    """Return the quantizations of weights and biases by constant, after making all of them legal.

    ``fix_points`` of activations are lowered in place where a layer's result cannot be that fine:
    the accumulator has no more fractional bits than input and weights together. So are those of
    sums and products next to nothing beside what they are made of. ``weights`` are
    by layer, as good as they can be alone; ``biases`` are the specifications of biases. ``known``
    keeps what suits a bias whatever the fix points are, for further calls with the same graph.

    Raises
    ------
    GraphError
        Ranges so far apart that no shift bridges them.
    """
    for _ in range(len(groups.names) + 1):
        if not _lower(graph, groups, fix_points, weights):
            break
    result, known = {}, {} if known is None else known
    for name in groups.results:
        layer, arguments = graph[name], parameters_of(graph[name])
        source, point = fix_points[layer.inputs["input"][0]], fix_points[groups.results[name]]
        bias = next(iter(layer.inputs.get(arguments.bias, ())), None)
        best = None if bias is None else _best_of_bias(graph[bias], biases[name], point, known)
        found = weights[name]
        if found.axis is not None:
            finest = None if best is None else np.minimum(best, point + FINEST_BIAS)
            rows = by_output(layer, weights_of(graph, layer))
            found = near_each_other(found, rows, finest, source)
        elif best is not None:
            found = _coarse_enough(found, int(best[0]), source, point)
        accumulator = np.array(found.fix_points) + source
        for cut in (int(accumulator.min()) - point, int(accumulator.max()) - point):
            if cut not in SHIFT_CUT:
                raise GraphError(
                    f"layer {name!r} needs shift_cut {cut}, but it must be in "
                    f"{SHIFT_CUT[0]}..{SHIFT_CUT[-1]}; the ranges of its input and result are too "
                    "far apart"
                )
        result[layer.inputs[arguments.weights][0]] = found
        if bias is not None and best is not None:
            points = _of_bias(best, accumulator, point)
            result[bias] = template_of(biases[name]).along(points, 0 if len(points) > 1 else None)
    return result


def near_each_other(
    weights: Quantization, rows: Array, bias: Points | None, source: int
) -> Quantization:
    """Return weights with fix points that shifts of the same instruction can have.

    Parameters
    ----------
    weights
        A fix point for each output channel, the best for its own values.
    rows
        These values, a row for each channel; without any but zeros, its fix point does not matter.
    bias
        Fix points that biases are to have; a channel that is mostly bias has coarser weights, so
        that shifts reach its bias without those of other channels being far from theirs.
    source
        Fix point of the input.
    """
    points, used = np.array(weights.fix_points), rows.any(axis=1)
    least = int(points[used].min(initial=points.max()))
    points = np.where(used, points, least)
    if bias is not None:
        shifts = points + source + 1 - bias
        most = min(SHIFT_BIAS[-1], max(0, int(shifts.min())) + MAX_CHANNEL_SHIFT)
        points = np.minimum(points, bias + most - 1 - source)
    points = np.clip(points, least, least + MAX_CHANNEL_SHIFT)
    return weights.along(map(int, points), weights.axis)


def _coarse_enough(weights: Quantization, bias: int, source: int, result: int) -> Quantization:
    """Return weights as coarse as the shift of a bias demands, which would saturate otherwise.

    Products so small beside the bias are less than a unit of the result.

    Parameters
    ----------
    weights
        As good as they can be alone.
    bias
        Fix point at which the bias does not saturate.
    source, result
        Fix points of input and result; the accumulator stays as fine as the result.
    """
    point = weights.fix_point
    excess = point + source + 1 - SHIFT_BIAS[-1] - bias
    room = point + source - result - SHIFT_CUT[0]
    return weights.at(point - max(0, min(excess, room)))


def _best_of_bias(bias: Node, spec: TensorSpec, result: int, known: dict[str, Points]) -> Points:
    """Return the fix point of a bias that suits its values, one for each channel if it has such.

    Biases of channels keep room to be corrected.
    """
    assert bias.value is not None
    template = template_of(spec)
    if spec.granularity == "per_tensor":
        if bias.name not in known:
            best = FIX_POINTS[-1]  # of zeros nothing saturates, nor do they make weights coarse
            if bias.value.any():
                best = best_fix_point(bias.value, method=spec.method, template=template)
            known[bias.name] = np.array([best])
        return known[bias.name]
    largest = np.abs(bias.value.astype(np.float64).ravel()) + ROOM * 2.0**-result
    found = np.floor(np.log2((template.limits[1] + 0.5) / largest)).astype(np.int64)
    return found.clip(FIX_POINTS[0], FIX_POINTS[-1])


def _of_bias(best: Points, accumulator: Points, result: int) -> list[int]:
    """Return the fix points of a bias that its shifts can have."""
    finest = np.minimum(best, result + FINEST_BIAS)
    if len(finest) == 1:
        least, most = accumulator.max() + 1 - SHIFT_BIAS[-1], accumulator.min() + 1 - SHIFT_BIAS[0]
        return [max(int(least), min(int(finest[0]), int(most)))]
    shifts = (accumulator + 1 - finest).clip(SHIFT_BIAS[0], SHIFT_BIAS[-1])
    shifts = np.maximum(shifts, shifts.max() - MAX_CHANNEL_SHIFT)
    return [int(point) for point in accumulator + 1 - shifts]


def _lower(
    graph: Graph, groups: ScaleGroups, fix_points: dict[str, int],
    weights: Mapping[str, Quantization],
) -> bool:  # fmt: skip
    """Lower fix points that are too fine; return whether there was one."""
    changed = False
    for name, result in groups.results.items():
        least = min(weights[name].fix_points)
        limit = least + fix_points[graph[name].inputs["input"][0]] - SHIFT_CUT[0]
        changed |= _limit(groups, fix_points, result, limit)
    for node in graph:
        sources = [n for n in node.inputs.get("input", ()) if n in fix_points]
        if node.kind == "matmul" and len(sources) == 2 and node.name in fix_points:
            limit = sum(fix_points[name] for name in sources) - SHIFT_CUT[0]
            changed |= _limit(groups, fix_points, node.name, limit)
        if node.kind == "add" and sources:
            coarsest = min(fix_points[name] for name in sources)
            for name in sources:
                changed |= _limit(groups, fix_points, name, coarsest + SHIFT_READ[-1])
            if node.name in fix_points:
                changed |= _limit(groups, fix_points, node.name, coarsest + SHIFT_WRITE)
        if node.kind == "mul" and len(sources) == 2 and node.name in fix_points:
            limit = sum(fix_points[name] for name in sources) + SHIFT_WRITE
            changed |= _limit(groups, fix_points, node.name, limit)
    return changed


def _limit(groups: ScaleGroups, fix_points: dict[str, int], name: str, limit: int) -> bool:
    if fix_points[name] <= limit:
        return False
    fix_points.update(dict.fromkeys(groups.members[groups.group[name]], limit))
    return True
