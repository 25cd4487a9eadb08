# SPDX-License-Identifier: Apache-2.0
"""Graphs that also compute a number a channel of some feature maps: then no map leaves a session.

A map that leaves takes fresh memory, which costs more than what is computed of it.
"""

import dataclasses
from collections.abc import Iterable, Mapping

from opendpu.ir import Array, Graph
from opendpu.quantize.observers.mean import SampleMeans

MAP_RANK = 4
"""Axes of a feature map: samples, rows, columns, channels."""

POSITIVE = frozenset({"relu", "relu6"})
"""Ops without results below zero."""


@dataclasses.dataclass(frozen=True)
class Reduced:
    """A graph with reductions over rows and columns of some results.

    Parameters
    ----------
    graph
        Shares the nodes of the graph that it was made of.
    ops
        By result, the op whose numbers stand for it: itself where it is no feature map.
    """

    graph: Graph
    ops: dict[str, str]

    def add_to(
        self, means: Mapping[str, SampleMeans], results: Mapping[str, Array], count: int
    ) -> None:
        """Count the results of ``count`` samples in the means of some layers, by layer."""
        for name, mean in means.items():
            mean.add(results[self.ops[name]], count, pixels(self.graph, name))


def with_means(graph: Graph, names: Iterable[str]) -> Reduced:
    """Return a graph that computes the mean of every channel, for every sample."""
    return _with(graph, "reduction_mean", names)


def with_largest(graph: Graph, names: Iterable[str]) -> Reduced:
    """Return a graph that computes the largest value of every channel, for every sample."""
    return _with(graph, "reduction_max", names)


def with_largest_below_zero(graph: Graph, names: Iterable[str]) -> Reduced:
    """Return what :func:`with_largest` does of the negated values, but of those that have some."""
    below = [name for name in dict.fromkeys(names) if graph[name].kind not in POSITIVE]
    made = _shared(graph)
    negated = {
        name: made.add(made.unique(f"{name}:neg"), "neg", graph[name].type, {"input": [name]}).name
        for name in below
    }
    found = _with(made, "reduction_max", negated.values())
    return Reduced(found.graph, {name: found.ops[other] for name, other in negated.items()})


def pixels(graph: Graph, name: str) -> int:
    """Return how many values one of :func:`with_means` stands for."""
    shape = graph[name].shape
    return shape[1] * shape[2] if len(shape) == MAP_RANK else 1


def _with(graph: Graph, kind: str, names: Iterable[str]) -> Reduced:
    made, ops = _shared(graph), {}
    for name in dict.fromkeys(names):
        shape = graph[name].shape
        ops[name] = name if len(shape) != MAP_RANK else made.add(
            made.unique(f"{name}:{kind}"), kind, (shape[0], 1, 1, shape[-1]), {"input": [name]},
            {"axis": [1, 2], "keep_dims": True},
        ).name  # fmt: skip
    return Reduced(made, ops)


def _shared(graph: Graph) -> Graph:
    made = Graph(graph.name)
    made.nodes, made.outputs, made.attrs = dict(graph.nodes), list(graph.outputs), dict(graph.attrs)
    return made
