# SPDX-License-Identifier: Apache-2.0
"""Positions judged by the network's results instead of by each tensor on its own."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from opendpu.ir import Graph, Node
from opendpu.quantize.correct import bias_change, mean_of, stands_on_grid
from opendpu.quantize.fold import LAYERS
from opendpu.quantize.insert import Rounded, insert
from opendpu.quantize.legality import settle
from opendpu.quantize.points import Points
from opendpu.reference.floating import check_inputs, compute, walk
from opendpu_arch.errors import GraphError

Array = npt.NDArray[Any]

SAMPLES = 32
"""Samples that are looked at, if memory allows."""

MEMORY_BYTES = 1 << 29
"""Size that the results of all ops together may have; limits the samples."""

MOST_WORK = 5e10
"""Multiply-accumulates that trying all positions may take: less than a minute."""

GAIN = 0.99
"""A change is taken if it brings the error below this part of what it was."""


def refine(
    graph: Graph,
    points: Points,
    positions: Mapping[str, int],
    samples: Mapping[str, Array],
    weights: dict[str, int],
    *,
    correct: bool,
) -> dict[str, int]:
    """Return better positions of activations.

    Group by group, from the inputs on, one bit less and one bit more are tried; what lowers the
    relative squared error of the network's quantized results stays. With ``correct``, biases are
    corrected in every trial, as they will be in the end. Large networks, see ``MOST_WORK``, keep
    their positions.
    """
    size = 4 * sum(int(np.prod(node.shape)) for node in graph if node.value is None)
    count = max(2, min(SAMPLES, MEMORY_BYTES // (3 * size)))
    count = min(count, int(MOST_WORK // _work(graph, points)))
    best = dict(positions)
    if count < 2:
        return best
    few = {name: array[:count] for name, array in samples.items()}
    simulation = _Simulation(graph, points, few, correct=correct)
    rounded: Rounded = {}
    constants = settle(graph, points, best, weights)
    state = simulation.run(insert(graph, best | constants, rounded), None)
    for leader in dict.fromkeys(points.leader[name] for name in points.names):
        for step in (-1, 1):
            trial = dict(best)
            for name in points.members(leader):
                trial[name] += step
            if trial[leader] < points.least.get(leader, trial[leader]):
                continue
            try:
                constants = settle(graph, points, trial, weights)
            except GraphError:
                continue
            found = simulation.run(insert(graph, trial | constants, rounded), state)
            if found.error < GAIN * state.error:
                best, state = trial, found
                break
    return best


def _work(graph: Graph, points: Points) -> float:
    """Return the multiply-accumulates of all trials together, for one sample."""
    total = 0.0
    for node in graph:
        if node.kind in LAYERS:
            weights = graph[node.inputs["weights"][0]].shape
            total += float(np.prod(node.shape)) * float(np.prod(weights)) / node.shape[-1]
    return max(1.0, total * len(set(points.leader.values())))


class _State:
    """A quantized graph and the results of all its ops."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.results: dict[str, Array] = {}
        self.error = 0.0


class _Simulation:
    """Evaluates quantized graphs on the same samples, only as far as they differ."""

    def __init__(
        self, graph: Graph, points: Points, samples: Mapping[str, Array], *, correct: bool
    ) -> None:
        self.correct = correct
        self.samples = samples
        users = graph.consumer_map()
        chosen = set(points.names)
        self.ends = [
            name
            for name in points.names
            if name in graph.outputs or not any(_leads(users, u.name, chosen) for u in users[name])
        ]
        self.wanted: dict[str, Array] = {}
        self.means: dict[str, Array] = {}
        for name, array in walk(graph, samples):
            if name in self.ends:
                self.wanted[name] = array
            if graph[name].kind in LAYERS:
                self.means[name] = mean_of(array)

    def run(self, quantized: Graph, base: _State | None) -> _State:
        """Return the results of a graph, with those of ``base`` where nothing differs."""
        state = _State(quantized)
        results = state.results
        heads = check_inputs(quantized, self.samples)
        for node in quantized:
            if base is not None and _same(node, base, results):
                results[node.name] = base.results[node.name]
            elif node.kind == "data":
                results[node.name] = heads[node.name]
            elif node.value is not None:
                results[node.name] = node.value
            elif stands_on_grid(quantized, node):
                results[node.name] = results[node.inputs["input"][0]]
            else:
                given = {arg: [results[n] for n in names] for arg, names in node.inputs.items()}
                array = compute(node, given)
                if self.correct and node.name in self.means and node.inputs.get("bias"):
                    missing = self.means[node.name] - mean_of(array)
                    array = array + bias_change(quantized, node, missing)
                results[node.name] = array
        for name, wanted in self.wanted.items():
            difference = (results[f"{name}_fix"] - wanted).ravel().astype(np.float64)
            energy = float(np.square(wanted, dtype=np.float64).sum()) or 1.0
            state.error += float(difference @ difference) / energy
        return state


def _same(node: Node, base: _State, results: Mapping[str, Array]) -> bool:
    """Return whether an op and all its inputs are what they were."""
    old = base.graph[node.name]
    if any(results[name] is not base.results[name] for name in node.sources()):
        return False
    if node.value is not None:
        return node.value is old.value or (
            old.value is not None and np.array_equal(node.value, old.value)
        )
    return node.type == old.type and node.attrs == old.attrs


def _leads(users: Mapping[str, list[Node]], name: str, chosen: set[str]) -> bool:
    """Return whether an op is quantized or leads to one that is."""
    return name in chosen or any(_leads(users, user.name, chosen) for user in users[name])
