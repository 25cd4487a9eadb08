# SPDX-License-Identifier: Apache-2.0
"""Graphs computed on all samples, a batch at a time, by onnxruntime."""

import math
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from opendpu.ir import Array, Graph
from opendpu.ops.batching import mixes_samples
from opendpu.ops.session import Session
from opendpu.quantize.samples import Samples

CHUNK_BYTES = 1 << 25
"""Size of the results that are in memory at a time, so that samples do not add to it; memory that a
session touches for the first time costs more than larger runs save."""


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

    Where samples are stacked, so is what no input reaches: it is the same for each.

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
    live = 4 * max(live_elements(graph).values(), default=1)
    size = min(batch, chunk_size(graph, keep), max(1, CHUNK_BYTES // live))
    for count, feed in samples.feeds(size, batched=batched, start=start, stop=last):
        results = session.run(feed)
        yield count, _for_each(results, count) if batched else results


def _for_each(results: dict[str, Array], count: int) -> dict[str, Array]:
    return {
        name: array if len(array) == count else np.repeat(array, count, axis=0)
        for name, array in results.items()
    }


def live_elements(graph: Graph) -> dict[str, int]:
    """Return how many elements are needed, of one sample, while each op is computed."""
    waiting = {name: len(users) for name, users in graph.consumer_map().items()}
    now, found = 0, {}
    for node in graph:
        if node.value is not None:
            continue
        now += math.prod(node.shape)
        found[node.name] = now
        for name in dict.fromkeys(node.sources()):
            waiting[name] -= 1
            if not waiting[name] and graph[name].value is None:
                now -= math.prod(graph[name].shape)
    return found


def chunk_size(graph: Graph, names: Iterable[str]) -> int:
    """Return how many samples' results of some ops have room in memory."""
    size = sum(graph[name].type.dtype.itemsize * int(np.prod(graph[name].shape)) for name in names)
    return max(1, CHUNK_BYTES // max(size, 1))
