# SPDX-License-Identifier: Apache-2.0
"""A graph computed on samples bit by bit, keeping only what is still read."""

import pathlib
import tempfile
from collections.abc import Iterable, Sequence

import numpy as np

from opendpu.ir import Array, Graph
from opendpu.ops.batching import ancestors
from opendpu.ops.session import Session
from opendpu.quantize.executor import chunk_size
from opendpu.quantize.samples import Samples

MEMORY_BYTES = 1 << 29
"""Size of the results that wait in memory; more wait in a temporary file."""


class ForwardPass:
    """The results of a graph on some samples, as far as they were asked for.

    Samples are computed in parts. What all readers have read is dropped; results of ``fix`` wait as
    integers, and all of them in a temporary folder once they are many, so that memory does not grow
    with the number of samples. Constants may change until something that reads them is computed.

    Parameters
    ----------
    graph
        What to compute.
    samples
        Its inputs.
    count
        How many of these, from the first on.
    size
        Samples of a part at most.
    batched
        Whether samples may be stacked along the first axis.
    """

    def __init__(
        self, graph: Graph, samples: Samples, count: int, *, size: int, batched: bool
    ) -> None:
        self.graph = graph
        self._batched = batched
        self._shelf = _Shelf()
        self._done = {node.name for node in graph if node.kind == "data"}
        self._readers = graph.consumer_map()
        self._pinned: set[str] = set()
        feeds = samples.feeds(size, batched=batched, stop=count)
        self.counts: list[int] = []
        self._results: list[dict[str, Array]] = []
        for number, feed in feeds:
            self.counts.append(number)
            self._results.append({name: self._shelf.put(array) for name, array in feed.items()})

    def compute(self, names: Sequence[str]) -> None:
        """Compute what is missing for some ops; their results stay until the next call."""
        before, self._pinned = self._pinned, set(names)
        nodes = [n for n in ancestors(self.graph, names) if n not in self._done]
        inside = {n for n in nodes if not self._is_constant(n)}
        keep = [
            n for n in nodes if n in inside and (n in names or self._is_read_outside(n, inside))
        ]
        if keep:
            session = Session(
                self.graph,
                nodes=nodes,
                keep=keep,
                batched=self._batched,
                channels_first=True,
                keep_memory=False,
            )
            for part in self._results:
                found = session.run({n: self._unpacked(n, part[n]) for n in session.inputs})
                part |= {n: self._shelf.put(self._packed(n, found[n])) for n in keep}
        self._done |= inside
        for name in {n for part in self._results for n in part} | before:
            if name not in self._pinned and not self._is_read_outside(name, self._done):
                for part in self._results:
                    self._shelf.drop(part.pop(name, None))

    def result(self, name: str, part: int) -> Array:
        """Return a result that was asked for, of the samples of one part; float32."""
        return self._unpacked(name, self._results[part][name])

    def close(self) -> None:
        """Forget everything."""
        self._results = []
        self._shelf.close()

    def _is_constant(self, name: str) -> bool:
        node = self.graph[name]
        if node.kind == "fix":
            node = self.graph[node.inputs["input"][0]]
        return node.value is not None

    def _is_read_outside(self, name: str, inside: Iterable[str]) -> bool:
        return any(reader.name not in inside for reader in self._readers[name])

    def _packed(self, name: str, array: Array) -> Array:
        """Return a result in as few bytes as hold it: integers, where it has at most 8 bits."""
        node = self.graph[name]
        if node.kind != "fix" or node.quantization.bits > 8:
            return array
        scaled = np.multiply(array, np.float32(2.0**node.fix_point))
        return scaled.astype(np.int8 if node.quantization.signed else np.uint8)

    def _unpacked(self, name: str, array: Array) -> Array:
        node = self.graph[name]
        if node.kind != "fix" or node.quantization.bits > 8:
            return np.asarray(array)
        return np.multiply(array, np.float32(2.0**-node.fix_point), dtype=np.float32)


class _Shelf:
    """Arrays that wait: in memory as long as there is room, in a temporary folder after that."""

    def __init__(self) -> None:
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._bytes = self._number = 0

    def put(self, array: Array) -> Array:
        """Return an array that holds the same, perhaps in a file."""
        if self._bytes + array.nbytes <= MEMORY_BYTES:
            self._bytes += array.nbytes
            return array
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="opendpu_finetune_")
        self._number += 1
        path = pathlib.Path(self._folder.name) / f"{self._number}.npy"
        np.save(path, array)
        return np.load(path, mmap_mode="r")  # type: ignore[no-any-return]

    def drop(self, array: Array | None) -> None:
        """Free the room of an array."""
        if isinstance(array, np.memmap):
            pathlib.Path(str(array.filename)).unlink(missing_ok=True)
        elif array is not None:
            self._bytes -= array.nbytes

    def close(self) -> None:
        """Delete all files."""
        if self._folder is not None:
            self._folder.cleanup()
        self._folder, self._bytes = None, 0


def part_size(graph: Graph, batch: int) -> int:
    """Return how many samples of a graph to compute at a time: at most ``batch``."""
    computed = [node.name for node in graph if node.value is None]
    largest = max(computed, key=lambda name: int(np.prod(graph[name].shape)), default=None)
    return min(batch, chunk_size(graph, [largest] * 4 if largest else []))
