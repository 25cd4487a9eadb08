# SPDX-License-Identifier: Apache-2.0
"""Scores of many variants of a network, independent of each other: here, in processes, on Ray."""

from collections.abc import Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from typing import Any, Protocol, TypeVar

import cloudpickle
import torch
from torch import nn

from opendpu import cluster
from opendpu.processes import worker_pool
from opendpu.pruning.score import Evaluate, score_of
from opendpu_arch.errors import DPUError, UnsupportedError

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
        A user's function fails, or cannot be sent to processes.
    DPUError
        A process ends before its work does.
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
    yield from _in_processes(work, tasks, min(workers, len(tasks)))


def _in_processes(
    work: Work[Task], tasks: Sequence[Task], workers: int
) -> Iterator[tuple[Task, float]]:
    try:
        with worker_pool(workers, _begin, (_sendable(work),)) as pool:
            yield from zip(tasks, pool.map(_score, tasks), strict=True)
    except BrokenProcessPool as error:
        raise DPUError(
            "a process that evaluates networks ended before its work did (out of memory?); "
            "one worker needs no processes"
        ) from error


def _sendable(work: Work[Any]) -> bytes:
    """Return what is evaluated, and the functions of a script, which no module may have."""
    try:
        return bytes(cloudpickle.dumps(work))
    except Exception as error:  # whatever the objects of a user's function say of it
        raise UnsupportedError(
            f"what is evaluated cannot be sent to processes ({error}); one worker needs no sending"
        ) from error


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


_work: Work[Any] | None = None


def _begin(sent: bytes) -> None:
    """Begin a process: several threads in each would be too many."""
    global _work
    torch.set_num_threads(1)
    _work = cloudpickle.loads(sent)


def _score(task: Any) -> float:
    assert _work is not None
    return _work.score(task)


def _alone(work: Work[Any], task: Any) -> float:
    """Return a score, in a process that has one processor."""
    torch.set_num_threads(1)
    return work.score(task)
