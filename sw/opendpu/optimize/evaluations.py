# SPDX-License-Identifier: Apache-2.0
"""Scores of many variants of a network, independent of each other: here, in processes, on Ray."""

import concurrent.futures
import multiprocessing
from collections.abc import Iterator, Sequence
from typing import Any, Protocol, TypeVar

import torch
from torch import nn

from opendpu import cluster
from opendpu.pruning.score import Evaluate, score_of

Task = TypeVar("Task")
Taken = TypeVar("Taken", contravariant=True)


class Work(Protocol[Taken]):
    """What every evaluation needs, and what it does."""

    def score(self, task: Taken) -> float:
        """Return the score of the variant that a task says."""
        ...


def evaluated(
    work: Work[Task], tasks: Sequence[Task], workers: int = 1, ray: str | None = None
) -> Iterator[tuple[Task, float]]:
    """Yield tasks with their scores, in order; from Ray as they come.

    Parameters
    ----------
    workers
        Processes; they have the same result as one.
    ray
        Address of a Ray cluster that evaluates instead.

    Raises
    ------
    UnsupportedError
        A user's function fails.
    ToolError
        Ray is missing, or there is no such cluster.
    """
    if ray:
        yield from cluster.calls(_alone, [work], ((task, 0, (task,)) for task in tasks), ray)
        return
    if workers <= 1 or len(tasks) <= 1:
        for task in tasks:
            yield task, work.score(task)
        return
    context = multiprocessing.get_context("fork")
    pool = concurrent.futures.ProcessPoolExecutor(
        min(workers, len(tasks)), mp_context=context, initializer=_share, initargs=(work,)
    )
    try:
        yield from zip(tasks, pool.map(_score, tasks), strict=True)
    finally:
        pool.shutdown(cancel_futures=True)


def seeded_score(network: nn.Module, evaluate: Evaluate, args: Sequence[Any], seed: int) -> float:
    """Return what a user's function says of a network, whose random numbers start from a seed.

    Raises
    ------
    UnsupportedError
        It fails, or returns no number.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return score_of(network, evaluate, args)


_shared: Work[Any] | None = None


def _share(work: Work[Any]) -> None:
    """Begin a process: it has the network already, as it is a fork; threads would be too many."""
    global _shared
    _shared = work
    torch.set_num_threads(1)


def _score(task: Any) -> float:
    assert _shared is not None
    return _shared.score(task)


def _alone(work: Work[Any], task: Any) -> float:
    """Return a score, in a process that has one processor."""
    torch.set_num_threads(1)
    return work.score(task)
