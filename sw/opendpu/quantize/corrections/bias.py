# SPDX-License-Identifier: Apache-2.0
"""Bias correction: the means of what layers compute, before and after quantization, made equal."""

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np

from opendpu.ir import Array, Graph, Node
from opendpu.ops.batching import ancestors, mixes_samples
from opendpu.ops.formats import fake_quantize
from opendpu.ops.session import Session
from opendpu.quantize.corrections.at_once import (
    ROOM_BYTES,
    corrected,
    is_possible,
)
from opendpu.quantize.executor import chunk_size, live_elements
from opendpu.quantize.layers import is_layer, parameters_of
from opendpu.quantize.observers.mean import Mean
from opendpu.quantize.placement.insert import with_plain_constants
from opendpu.quantize.progress import Progress
from opendpu.quantize.samples import Samples
from opendpu.quantize.work import network_work

SAMPLES = 128
"""Samples that means are taken over at most."""

FEWEST = 32
"""Samples that are looked at, where they have room, however much work that is."""

WORK = 6e10
"""What correction may take for more than these, in multiply-accumulates."""

COPIES = 3
"""Arrays of the size of a result that are there while it is rounded."""

STORED_BYTES = 1 << 29
"""Size of what is kept of them between layers, as float32; limits the samples."""


def add_biases(graph: Graph, layers: Collection[str]) -> None:
    """Give every one of some layers without a bias one of zeros, in place."""
    for name in layers:
        layer = graph[name]
        bias = parameters_of(layer).bias
        if not layer.inputs.get(bias):
            zeros = np.zeros(layer.shape[-1])
            layer.inputs[bias] = [graph.add_const(f"{layer.name}_bias", zeros).name]
    graph.sort()


def sample_count(graph: Graph) -> int:
    """Return how many samples correction looks at: as many as have room and are not too much work.

    ``FEWEST`` are enough for means of channels, as every pixel counts; small networks get more.
    """
    room = STORED_BYTES // max(1, 4 * max(live_elements(graph).values(), default=0))
    return max(1, min(room, max(FEWEST, int(WORK / max(network_work(graph), 1))), SAMPLES))


def correct_biases(
    quantized: Graph,
    means: Mapping[str, Array],
    samples: Samples,
    count: int,
    progress: Progress,
    ends: Sequence[str] = (),
) -> list[dict[str, Array]]:
    """Shift the biases of a quantized graph, in place, layer by layer from the inputs on.

    Quantized weights and activations move the mean of a channel; the difference to ``means``,
    those of the float graph over the first ``count`` samples, goes into the bias, on the bias's
    grid. A layer sees what the corrected layers before it give; what it computed for its own mean
    moves along with the bias.

    Returns
    -------
    What the corrected graph gives for ``ends``, part by part of the samples.
    """
    layers = [name for name in means if is_layer(quantized[name])]
    batched = not mixes_samples(quantized, [*layers, *ends])
    state = _State(quantized, samples, count, batched=batched, ends=ends)
    alone = state.count_alone(layers)
    for number, name in enumerate(layers):
        progress.step("correcting biases", number, len(layers), name)
        if number >= alone:
            break
        found = state.mean_of(name)
        layer = quantized[name]
        change = bias_change(quantized, layer, means[name] - found)
        bias, constant = _bias(quantized, layer)
        assert constant.value is not None
        constant.value = constant.value + change
        state.move(name, change, bias.name, constant.value)
    if left := {name: means[name] for name in layers[alone:]}:
        for name, value in state.at_once(left).items():
            _, constant = _bias(quantized, quantized[name])
            constant.value = value.reshape(constant.shape)
    return state.results() if ends else []


def _bias(graph: Graph, layer: Node) -> tuple[Node, Node]:
    """Return the bias that a layer reads, and the constant behind it."""
    bias = graph[layer.inputs[parameters_of(layer).bias][0]]
    return bias, graph[bias.inputs["input"][0]] if bias.kind == "fix" else bias


@dataclasses.dataclass
class _Part:
    """Some samples: how many, and the results that are still needed, by op."""

    count: int
    results: dict[str, Array]


class _State:
    """A quantized graph, computed on samples as far as its biases are corrected."""

    def __init__(
        self, graph: Graph, samples: Samples, count: int, *, batched: bool, ends: Sequence[str]
    ) -> None:
        self.graph = with_plain_constants(graph)
        self.batched = batched
        computed = [node.name for node in graph if node.value is None]
        largest = max(computed, key=lambda name: int(np.prod(graph[name].shape)), default=None)
        size = chunk_size(graph, [largest] * 4 if largest else [])
        self.parts = [
            _Part(number, dict(feed))
            for number, feed in samples.feeds(size, batched=batched, stop=count)
        ]
        self._done = {node.name for node in graph if node.kind == "data"}
        self._readers = graph.consumer_map()
        self._ends = list(dict.fromkeys(ends))

    def count_alone(self, layers: Sequence[str]) -> int:
        """Return how many layers are computed one by one: those before all else has room."""
        count = sum(part.count for part in self.parts)
        if not self.batched or len(layers) < 2 or not is_possible(self.graph, layers):
            return len(layers)
        small = ROOM_BYTES // (4 * COPIES * count)
        large = {name for name, size in live_elements(self.graph).items() if size > small}
        last = max((i for i, name in enumerate(self.graph.nodes) if name in large), default=-1)
        place = {name: index for index, name in enumerate(self.graph.nodes)}
        return sum(place[name] <= last for name in layers)

    def at_once(self, means: Mapping[str, Array]) -> dict[str, Array]:
        """Compute all that is left, and return the biases that give layers their means."""
        nodes = [
            name for name in ancestors(self.graph, [*means, *self._ends])
            if name not in self._done and not self._is_constant(name)
        ]  # fmt: skip
        read = dict.fromkeys(s for n in nodes for s in self.graph[n].sources())
        waiting = [n for n in {**read, **dict.fromkeys(self._ends)} if n in self._done]
        given = {
            name: np.concatenate([self._unpacked(name, p.results[name]) for p in self.parts])
            for name in waiting
        }
        count = sum(part.count for part in self.parts)
        biases, results = corrected(self.graph, nodes, means, self._ends, given)
        self.parts = [_Part(count, {n: self._packed(n, a) for n, a in results.items()})]
        self._done.update(nodes)
        return biases

    def mean_of(self, layer: str) -> Array:
        """Return the mean of each channel of a layer's result, computing what it needs."""
        mean = Mean()
        for results in self._computed([layer]):
            mean.add(results[layer])
        return mean.value

    def results(self) -> list[dict[str, Array]]:
        """Return the results of the ends, part by part."""
        left = [name for name in self._ends if name not in self._done]
        if left:
            for _ in self._computed(left):
                pass
        return [
            {name: self._unpacked(name, part.results[name]) for name in self._ends}
            for part in self.parts
        ]

    def _computed(self, wanted: Sequence[str]) -> Iterator[dict[str, Array]]:
        """Compute some ops and what they need; yield the results, and keep what others wait for."""
        nodes = [n for n in ancestors(self.graph, wanted) if n not in self._done]
        inside = {n for n in nodes if not self._is_constant(n)}
        keep = [n for n in nodes if n in inside and (n in wanted or n in self._ends
                or self._is_read_outside(n, inside))]  # fmt: skip
        session = Session(self.graph, nodes=nodes, keep=keep, batched=self.batched,
                          channels_first=True)  # fmt: skip
        self._done |= inside
        for part in self.parts:
            given = {n: self._unpacked(n, part.results[n]) for n in session.inputs}
            results = session.run(given)
            yield results
            part.results |= {n: self._packed(n, results[n]) for n in keep}
            for name in [n for n in part.results if not self._is_waited_for(n)]:
                del part.results[name]

    def move(self, layer: str, change: Array, bias: str, value: Array) -> None:
        """Give a layer another bias, and the results that it has given what that changes."""
        self.graph[bias].value = value
        for part in self.parts:
            if layer in part.results:
                part.results[layer] += change.astype(np.float32)

    def _is_constant(self, name: str) -> bool:
        return self.graph[name].value is not None

    def _is_read_outside(self, name: str, inside: set[str]) -> bool:
        return any(reader.name not in inside for reader in self._readers[name])

    def _is_waited_for(self, name: str) -> bool:
        return name in self._ends or self._is_read_outside(name, self._done)

    def _packed(self, name: str, array: Array) -> Array:
        """Return a result in as few bytes as hold it: that of a ``fix`` is eight bits."""
        node = self.graph[name]
        if not _is_byte(node):
            return array
        return (array * np.float32(2.0**node.fix_point)).astype(np.int8)

    def _unpacked(self, name: str, array: Array) -> Array:
        node = self.graph[name]
        if not _is_byte(node):
            return array
        return np.multiply(array, np.float32(2.0**-node.fix_point), dtype=np.float32)


def _is_byte(node: Node) -> bool:
    """Return whether eight bits hold the elements of a result."""
    if node.kind != "fix" or not node.quantization.is_power_of_two:
        return False
    low, high = node.quantization.limits
    return low >= -128 and high <= 127


def bias_change(quantized: Graph, layer: Node, wanted: Array) -> Array:
    """Return the change nearest to ``wanted`` that the bias of a layer can make on its grid.

    A bias that is not quantized changes by just that.
    """
    bias = quantized[layer.inputs[parameters_of(layer).bias][0]]
    value = quantized[bias.inputs["input"][0]].value if bias.kind == "fix" else bias.value
    assert value is not None
    moved = (value.astype(np.float64) + wanted).astype(np.float32)
    if bias.kind == "fix":
        moved = fake_quantize(moved, bias.quantization)
    return np.asarray(moved - value)
