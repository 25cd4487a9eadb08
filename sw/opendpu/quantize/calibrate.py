# SPDX-License-Identifier: Apache-2.0
"""Positions of activations from calibration data, streamed in batches."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from opendpu.ir import Graph
from opendpu.quantize.points import Points
from opendpu.reference.floating import check_inputs, walk

Array = npt.NDArray[Any]

CANDIDATES = 6
"""Positions that are tried: from the largest without overflow to more, with saturation."""

ENOUGH = 1 << 22
"""Elements that an error is measured on at most, spread evenly over a tensor."""

POSITIONS = range(-24, 32)
"""Positions that are considered at all."""


def no_overflow(largest: float) -> int:
    """Return the largest position at which a magnitude of ``largest`` does not saturate."""
    if largest <= 0:
        return 7
    position = math.floor(math.log2(127.5 / largest))
    return min(max(position, POSITIONS[0]), POSITIONS[-1])


def squared_error(array: Array, position: int) -> float:
    """Return the sum of squared differences that 8 bits at ``position`` make, inf if it is huge."""
    scale = np.float32(2.0**position)
    quantized = np.clip(np.floor(array * scale + np.float32(0.5)), -128, 127) / scale
    difference = (array - quantized).ravel()
    with np.errstate(over="ignore"):
        return float(np.dot(difference, difference))


def best_position(array: Array, *, method: str = "minmse") -> int:
    """Return the position of a constant."""
    start = no_overflow(float(np.abs(array).max(initial=0.0)))
    if method == "nonoverflow":
        return start
    positions = range(start, start + CANDIDATES)
    some = thinned(array)
    return min(positions, key=lambda position: squared_error(some, position))


def thinned(array: Array) -> Array:
    """Return at most ``ENOUGH`` elements of an array, at equal distances."""
    step = -(-array.size // ENOUGH)
    return array if step == 1 else array.ravel()[::step]


def batches(graph: Graph, calib: Mapping[str, Array], size: int) -> Iterator[dict[str, Array]]:
    """Yield the calibration data in batches of at most ``size`` samples."""
    arrays = check_inputs(graph, calib)
    count = min(array.shape[0] for array in arrays.values())
    for start in range(0, count, size):
        yield {name: array[start : start + size] for name, array in arrays.items()}


def choose_positions(
    graph: Graph,
    points: Points,
    calib: Mapping[str, Array],
    *,
    method: str,
    batch: int,
) -> dict[str, int]:
    """Return the position of every point.

    ``nonoverflow`` lets nothing saturate; ``minmse`` takes the least squared error over all
    data; ``diffs`` takes the least squared error of each batch and then the commonest position
    (the smaller one of two equally common). Points of a group are judged together.
    """
    wanted = set(points.names)
    largest = dict.fromkeys(points.names, 0.0)
    for part in batches(graph, calib, batch):
        for name, array in walk(graph, part):
            if name in wanted:
                largest[name] = max(largest[name], float(np.abs(array).max(initial=0.0)))
    start = {}
    for leader in dict.fromkeys(points.leader.values()):
        first = min(no_overflow(largest[name]) for name in points.members(leader))
        start[leader] = max(first, points.least.get(leader, first))
    if method == "nonoverflow":
        return {name: start[points.leader[name]] for name in points.names}
    total: dict[str, Array] = {leader: np.zeros(CANDIDATES) for leader in start}
    votes: dict[str, Counter[int]] = {leader: Counter() for leader in start}
    for part in batches(graph, calib, batch):
        errors = {leader: np.zeros(CANDIDATES) for leader in start}
        for name, array in walk(graph, part):
            if name in wanted:
                leader, some = points.leader[name], thinned(array)
                scale = array.size / some.size
                errors[leader] += [
                    scale * squared_error(some, start[leader] + step) for step in range(CANDIDATES)
                ]
        for leader, error in errors.items():
            total[leader] += error
            votes[leader][int(np.argmin(error))] += 1
    if method == "diffs":
        step = {name: _commonest(v) for name, v in votes.items()}
    else:
        step = {name: int(np.argmin(error)) for name, error in total.items()}
    return {name: start[points.leader[name]] + step[points.leader[name]] for name in points.names}


def _commonest(votes: Counter[int]) -> int:
    return min(votes, key=lambda step: (-votes[step], step))
