# SPDX-License-Identifier: Apache-2.0
"""Quantized graphs that differ in few fix points, evaluated only as far as they differ."""

from collections.abc import Collection, Mapping

import numpy as np

from opendpu.ir import Array, FloatGraph, Graph, Node, QuantizedGraph
from opendpu.ops.cost import macs
from opendpu.ops.cut import cut, cut_terms
from opendpu.ops.formats import fake_quantize
from opendpu.ops.session import Session
from opendpu.quantize.corrections.bias import bias_change
from opendpu.quantize.corrections.judge import is_gain, level
from opendpu.quantize.layers import is_layer, parameters_of
from opendpu.quantize.observers.mean import Mean
from opendpu.quantize.placement.insert import fix_name

CERTAIN = 0.5
"""Standard errors that the mean gain of a sample has to have: some changes gain on few samples,
which others pay for."""

ONE_THREAD_MACS = 1 << 24
"""Layers up to this size are computed by one thread: there are many of them, one at a time."""


class State:
    """A quantized graph, the results of its ops, and the error of the network's results.

    ``errors`` are those of each sample, relative to the energy of all.
    """

    def __init__(self, graph: QuantizedGraph) -> None:
        self.graph = graph
        self.results: dict[str, Array] = {}
        self.errors: Array = np.zeros(1)

    def is_lower(self, other: "State") -> bool:
        """Return whether the error is below another's."""
        return bool(self.errors.sum() < other.errors.sum())

    def is_better(self, other: "State", part: float) -> bool:
        """Return whether the error is below that part of another's, and not by chance."""
        if self.errors.sum() >= part * other.errors.sum():
            return False
        return is_gain(self.errors, other.errors, CERTAIN)


class Simulation:
    """Evaluates quantized graphs on the same samples.

    Parameters
    ----------
    inputs
        Samples by input: stacked along the first axis, or along a new one if not ``batched``.
    wanted
        What the float network gives, stacked as they are, by op whose quantized result is judged.
    means
        Channels' means of layers in the float network, where biases are to be corrected.
    needed
        Ops, but for ``fix``, that the judged results need.
    count
        How many samples there are.
    batched
        Whether ops compute several samples at a time; otherwise one after the other.
    differences
        Those of the judged results of which only differences between channels count.
    like
        Another simulation of the same graphs, which opens sessions of ops for both.
    """

    def __init__(
        self,
        inputs: Mapping[str, Array],
        wanted: Mapping[str, Array],
        means: Mapping[str, Array],
        needed: Collection[str],
        count: int,
        *,
        batched: bool = True,
        differences: Collection[str] = (),
        like: "Simulation | None" = None,
    ) -> None:
        self.batched = batched
        self.count = count
        self.differences = differences
        self.inputs = inputs
        self.wanted = wanted
        self.means = means
        self.needed = needed
        judged = {name: level(array, name, differences) for name, array in wanted.items()}
        self._energy = {
            name: float(np.square(array, dtype=np.float64).sum()) or 1.0
            for name, array in judged.items()
        }
        self._kernels: dict[tuple[object, ...], Session] = {} if like is None else like._kernels
        self._users: dict[str, list[Node]] | None = None
        self._constants: dict[tuple[str, int], tuple[Array, Array]] = (
            {} if like is None else like._constants
        )

    def run(self, quantized: QuantizedGraph, base: State | None) -> State:
        """Return the results of a graph, with those of ``base`` where nothing differs."""
        state = State(quantized)
        results, state.errors = state.results, np.zeros(self.count)
        for node in quantized:
            source = node.inputs["input"][0] if node.kind == "fix" else node.name
            if source not in self.needed:
                continue
            if base is not None and _same(node, base, results):
                results[node.name] = base.results[node.name]
            elif node.value is not None:
                results[node.name] = node.value
            elif node.kind == "data":
                results[node.name] = self.inputs[node.name]
            elif node.kind == "fix":
                array = results[source]
                constant = quantized[source].value is not None
                results[node.name] = array if constant else fake_quantize(array, node.quantization)
            else:
                results[node.name] = self._computed(quantized, node, results)
        for name, wanted in self.wanted.items():
            difference = level(results[fix_name(name)] - wanted, name, self.differences)
            noise = np.square(difference, dtype=np.float64).reshape(self.count, -1).sum(axis=1)
            state.errors += noise / self._energy[name]
        return state

    def _computed(self, graph: Graph, node: Node, results: Mapping[str, Array]) -> Array:
        """Return the result of one op, with its bias corrected."""
        bias = graph[node.inputs[b][0]] if is_layer(node) and (
            b := parameters_of(node).bias) in node.inputs and node.inputs[b] else None  # fmt: skip
        results = self._cut(graph, node, results)
        session = self._kernel(graph, node, results)
        given = {n: results[n] for n in session.inputs}
        if self.batched:
            array = session.run(given)[node.name]
        else:
            count = len(next(iter(self.inputs.values())))
            single = ({n: a[index] for n, a in given.items()} for index in range(count))
            array = np.stack([session.run(feed)[node.name] for feed in single])
        if bias is None:
            return array
        array += results[bias.name]
        if node.name in self.means:
            mean = Mean()
            mean.add(array)
            array += bias_change(graph, node, self.means[node.name] - mean.value)
        return array

    def _cut(self, graph: Graph, node: Node, results: Mapping[str, Array]) -> Mapping[str, Array]:
        """Return results with terms of a sum as the DPU adds them."""
        cuts = cut_terms(graph, node, lambda: self._readers(graph))
        if not cuts:
            return results
        made = {name: self._cut_once(graph, name, results[name], at) for name, at in cuts.items()}
        return {name: results[name] for name in node.sources()} | made

    def _cut_once(self, graph: Graph, name: str, array: Array, point: int) -> Array:
        """Return an array cut; of the same constant the same array, so that its kernel stays."""
        if not _is_constant(graph, graph[name]):
            return cut(array, point)
        before, made = self._constants.get((name, point), (None, None))
        if made is None or before is not array:
            made = cut(array, point)
            self._constants[name, point] = array, made
        return made

    def _readers(self, graph: Graph) -> dict[str, list[Node]]:
        """Return the readers of results: the same kinds of ops in all graphs."""
        if self._users is None:
            self._users = graph.consumer_map()
        return self._users

    def _kernel(self, graph: Graph, node: Node, results: Mapping[str, Array]) -> Session:
        """Return the session of one op without its bias; it is made once for the same constants."""
        skipped = parameters_of(node).bias if is_layer(node) else None
        inputs = {arg: list(names) for arg, names in node.inputs.items() if arg != skipped}
        values = {n: results[n] for names in inputs.values() for n in names
                  if _is_constant(graph, graph[n])}  # fmt: skip
        key = (node.name, *(id(value) for value in values.values()))
        if key not in self._kernels:
            alone = FloatGraph(node.name)
            for name in dict.fromkeys(n for names in inputs.values() for n in names):
                made = graph[name].type.with_quantization(None)
                if name in values:
                    alone.add(name, "const", made, value=values[name])
                else:
                    alone.add(name, "data", made)
            alone.add(node.name, node.kind, node.type, inputs, node.attrs)
            alone.outputs = [node.name]
            threads = 0 if macs(node, graph) > ONE_THREAD_MACS else 1
            self._kernels[key] = Session(
                alone,
                batched=self.batched,
                threads=threads,
                channels_first=True,
                keep_memory=False,
            )
        return self._kernels[key]


def _is_constant(graph: Graph, node: Node) -> bool:
    if node.kind == "fix":
        node = graph[node.inputs["input"][0]]
    return node.value is not None


def _same(node: Node, base: State, results: Mapping[str, Array]) -> bool:
    """Return whether an op and all its inputs are what they were."""
    if any(results[name] is not base.results[name] for name in node.sources()):
        return False
    old = base.graph[node.name]
    if node is old:
        return True
    if node.value is not None:
        return node.value is old.value
    return node.type == old.type and node.attrs == old.attrs
