# SPDX-License-Identifier: Apache-2.0
"""Who does the work: processes of this host, or workers of a Ray cluster.

Both give every task's counts once, whatever happens to workers: those of a lost one are done again.
"""

import concurrent.futures
import contextlib
import os
import signal
from collections.abc import Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from typing import TYPE_CHECKING

from opendpu import cluster
from opendpu.data_sets.metrics import Counts
from opendpu.data_sets.work import Task, Variant, count
from opendpu.ir import Array
from opendpu.processes import worker_pool
from opendpu_arch.errors import DPUError

if TYPE_CHECKING:  # workers need not read data
    from opendpu.data_sets.samples import DataSet

TRIES = 3
"""How often work is begun again that a worker was lost with."""
AHEAD = 2
"""Tasks that wait for each worker."""

Done = Iterator[tuple[Task, Counts]]

_variants: Sequence[Variant] = ()


def _begin(variants: Sequence[Variant]) -> None:
    global _variants  # a process is one worker
    _variants = variants


def _do(task: Task, data: tuple[dict[str, Array], Array]) -> Counts:
    arrays, labels = data
    return count(_variants[task.variant], arrays, labels)


def in_processes(
    tasks: Sequence[Task], variants: Sequence[Variant], data: "DataSet", workers: int | None = None
) -> Done:
    """Yield what processes of this host count, as it comes.

    Raises
    ------
    DPUError
        A task fails, or workers are lost again and again.
    """
    waiting = list(tasks)
    size = workers or os.cpu_count() or 1
    for _ in range(TRIES):
        done: set[Task] = set()
        try:
            with worker_pool(size, _begin, (variants,)) as pool:
                for task, counts in _through(pool, waiting, data, AHEAD * size):
                    done.add(task)
                    yield task, counts
            return
        except BrokenProcessPool:
            waiting = [task for task in waiting if task not in done]
    raise DPUError(f"worker processes were lost {TRIES} times: is there enough memory?")


def _through(
    pool: concurrent.futures.Executor, tasks: Sequence[Task], data: "DataSet", ahead: int
) -> Done:
    running: dict[concurrent.futures.Future[Counts], Task] = {}
    coming = iter(tasks)
    while True:
        while len(running) < ahead and (task := next(coming, None)) is not None:
            with _deaf():  # workers begin here
                running[pool.submit(_do, task, data.part(task.start, task.stop))] = task
        if not running:
            return
        ready, _ = concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED)
        for future in ready:
            yield running.pop(future), future.result()


@contextlib.contextmanager
def _deaf() -> Iterator[None]:
    """Let processes that begin meanwhile not hear Ctrl-C, which the parent hears afterwards."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def on_ray(
    tasks: Sequence[Task], variants: Sequence[Variant], data: "DataSet", address: str
) -> Done:
    """Yield what workers of a Ray cluster count, as it comes.

    Parameters
    ----------
    address
        Of the cluster, ``auto`` for the one of this host, ``local`` for one of its own.

    Raises
    ------
    ToolError
        Ray is missing, or there is no such cluster.
    DPUError
        A task fails, or its workers are lost again and again.
    """
    work = (
        (task, task.variant, data.part(task.start, task.stop)) for task in tasks
    )  # read as workers are free
    yield from cluster.calls(count, variants, work, address)
