# SPDX-License-Identifier: Apache-2.0
"""Graphs computed on all samples, a batch at a time, by onnxruntime."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from opendpu.ir import Array, Graph
from opendpu.ops import CONSTANTS, SOURCES
from opendpu.ops.foreign import KIND
from opendpu.ops.session import Session
from opendpu.quantize.samples import Samples

CHUNK_BYTES = 1 << 27
"""Size of the results that are in memory at a time, so that samples do not add to it."""


def evaluate(
    graph: Graph,
    keep: Sequence[str],
    samples: Samples,
    *,
    batch: int,
    start: int = 0,
    stop: int | None = None,
) -> Iterator[tuple[int, dict[str, Array]]]:
    """Yield, for parts of the samples in order, how many they are and results by op.

    Parameters
    ----------
    graph
        What to compute; its batch is 1, but for operators that join samples.
    keep
        Ops whose results are wanted.
    batch
        Samples of a part at most.
    start, stop
        Which samples to compute; all if not given.
    """
    last = samples.count if stop is None else stop
    if not keep or start >= last:
        return
    batched = not mixes_samples(graph, keep)
    session = Session(graph, keep=keep, batched=batched)
    size = min(batch, chunk_size(graph, keep))
    for count, feed in samples.feeds(size, batched=batched, start=start, stop=last):
        yield count, session.run(feed)


def chunk_size(graph: Graph, names: Iterable[str]) -> int:
    """Return how many samples' results of some ops have room in memory."""
    size = sum(graph[name].type.dtype.itemsize * int(np.prod(graph[name].shape)) for name in names)
    return max(1, CHUNK_BYTES // max(size, 1))


def ancestors(graph: Graph, names: Iterable[str]) -> list[str]:
    """Return some ops and all that they need, in order."""
    alive = set(names)
    for node in reversed(graph.nodes.values()):
        if node.name in alive:
            alive.update(node.sources())
    return [name for name in graph.nodes if name in alive]


def mixes_samples(graph: Graph, names: Iterable[str]) -> bool:
    """Return whether an op that some ops need would join samples that are stacked."""
    for name in ancestors(graph, names):
        node = graph[name]
        if node.kind in CONSTANTS or (node.kind == "fix" and _is_constant(graph, name)):
            continue
        if node.shape[:1] != (1,) or node.kind == KIND:
            return True
        if node.kind in SOURCES:
            continue
        axis = node.attrs.get("axis", ())
        axes = axis if isinstance(axis, list | tuple) else [axis]
        joined = not {0, -len(graph[node.sources()[0]].shape)}.isdisjoint(axes)
        if node.kind == "matmul":
            joined = len(node.shape) < 3
        if node.kind == "transpose":
            joined = node.attrs["order"][0] != 0
        if joined:
            return True
    return False


def _is_constant(graph: Graph, name: str) -> bool:
    return graph[graph[name].inputs["input"][0]].value is not None
