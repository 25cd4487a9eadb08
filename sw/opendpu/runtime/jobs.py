# SPDX-License-Identifier: Apache-2.0
"""Jobs in flight: numbers, worker threads, results and failures.

Every job is handed to a thread and back, so what that costs counts: a queue in C and one lock a
job cost a third of what executors and futures do.
"""

import atexit
import concurrent.futures
import itertools
import os
import queue
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from opendpu_arch.errors import DPUError, DPUTimeoutError

Result = TypeVar("Result")

REMEMBERED = 1024
"""Finished jobs whose result can still be asked for."""

QUEUE_SIZE = 256
"""Jobs that may wait for a thread; who submits one more waits."""

PATIENCE = 10
"""Seconds that jobs get to finish when the interpreter ends."""

_OPEN: "weakref.WeakSet[JobQueue[Any]]" = weakref.WeakSet()


class JobQueue(Generic[Result]):
    """Runs functions in worker threads and keeps what they return, by job number.

    Parameters
    ----------
    workers
        Threads at most; as many as there are cores if not given.
    size
        Jobs that may be unfinished at a time, beside those that run.
    """

    def __init__(self, workers: int | None = None, *, size: int = QUEUE_SIZE) -> None:
        self._workers = workers or os.cpu_count() or 1
        self._size = self._workers + size
        self._numbers = itertools.count(1)
        self._closed = False
        self._jobs: dict[int, _Job[Result]] = {}
        self._waited: dict[int, None] = {}
        self.last: Result | None = None
        """Result of the job that finished last."""
        self._begin()
        _OPEN.add(self)

    def _begin(self) -> None:
        """Start without threads and unfinished jobs."""
        self._tasks: queue.SimpleQueue[_Job[Result] | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._room = threading.Condition(self._lock)
        self._blocked = 0
        self._unfinished = 0
        self._finalizer = weakref.finalize(self, _stop, self._tasks, self._threads)
        self._finalizer.atexit = False

    def submit(self, run: Callable[[], Result]) -> int:
        """Start ``run`` and return the number of its job; waits while the queue is full."""
        job = _Job(self, run)
        with self._lock:
            while self._unfinished >= self._size and not self._closed:
                self._blocked += 1
                try:
                    self._room.wait()
                finally:
                    self._blocked -= 1
            if self._closed:
                raise DPUError("the runner is closed")
            self._unfinished += 1
            if self._unfinished > len(self._threads) < self._workers:
                self._start_thread()
            number = next(self._numbers)
            self._jobs[number] = job
            while len(self._waited) > REMEMBERED:
                oldest = next(iter(self._waited))
                del self._waited[oldest], self._jobs[oldest]
            self._tasks.put(job)
        return number

    def result(self, job: int, timeout_seconds: float | None = None) -> Result:
        """Wait for a job and return its result, or raise what it raised.

        Raises
        ------
        DPUError
            There is no such job.
        DPUTimeoutError
            The job has not finished in time; it goes on.
        """
        found = self._jobs.get(job)
        if found is None:
            raise DPUError(f"job {job!r} is unknown; it was never started, or is forgotten")
        if not found.wait(timeout_seconds):
            raise DPUTimeoutError(f"job {job} has not finished after {timeout_seconds} seconds")
        with self._lock:
            if job in self._jobs:
                self._waited[job] = None
        if found.error is not None:
            raise found.error
        return found.value  # type: ignore[return-value] # None only where a job returns it

    def cancel(self) -> None:
        """Drop the jobs that have not begun, and take no more."""
        self._refuse()
        while True:
            try:
                job = self._tasks.get_nowait()
            except queue.Empty:
                break
            if job is not None:
                job.finish(error=concurrent.futures.CancelledError())
        _stop(self._tasks, self._threads)

    def close(self) -> None:
        """Wait for every job and end the threads."""
        self._refuse()
        _stop(self._tasks, self._threads)
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join()

    def restart(self) -> None:
        """Go on in a forked process, which has none of the threads; their jobs fail here."""
        lost = [job for job in self._jobs.values() if not job.finished]
        self._finalizer.detach()
        self._begin()
        self._unfinished = len(lost)
        for job in lost:
            job.finish(error=DPUError("the job began in the process that this one was forked from"))

    def _refuse(self) -> None:
        with self._lock:
            self._closed = True
            self._room.notify_all()

    def _start_thread(self) -> None:
        thread = threading.Thread(
            target=_work, args=(self._tasks,), name=f"dpu-job_{len(self._threads)}", daemon=True
        )
        thread.start()
        self._threads.append(thread)

    def _finished(self) -> None:
        with self._lock:
            self._unfinished -= 1
            if self._blocked:
                self._room.notify()


class _Job(Generic[Result]):
    """A function, and later what came of it."""

    __slots__ = ("_done", "_owner", "_run", "error", "value")

    def __init__(self, owner: JobQueue[Result], run: Callable[[], Result]) -> None:
        self._owner: JobQueue[Result] | None = owner
        self._run: Callable[[], Result] | None = run
        self._done = threading.Lock()
        self._done.acquire()  # until the job has finished
        self.value: Result | None = None
        self.error: BaseException | None = None

    def execute(self) -> None:
        """Run the function and keep what comes of it."""
        assert self._run is not None
        assert self._owner is not None
        try:
            value = self._run()
        except BaseException as error:
            self.finish(error=error)
            return
        self._owner.last = value
        self.finish(value=value)

    def finish(self, *, value: Result | None = None, error: BaseException | None = None) -> None:
        """Let everybody who waits go on."""
        self.value, self.error = value, error
        owner, self._owner, self._run = self._owner, None, None
        if owner is not None:
            owner._finished()
        self._done.release()

    @property
    def finished(self) -> bool:
        """Whether there is a result or an error."""
        return self._owner is None

    def wait(self, timeout_seconds: float | None) -> bool:
        """Wait until the job has finished; tell whether it has."""
        seconds = -1 if timeout_seconds is None else max(timeout_seconds, 0)
        if not self._done.acquire(timeout=min(seconds, threading.TIMEOUT_MAX)):
            return False
        self._done.release()
        return True


def _work(tasks: "queue.SimpleQueue[_Job[Any] | None]") -> None:
    """Execute jobs until there is none but the end; the thread does not keep its queue alive."""
    while True:
        job = tasks.get()
        if job is None:
            return
        job.execute()
        del job


def _stop(tasks: "queue.SimpleQueue[_Job[Any] | None]", threads: list[threading.Thread]) -> None:
    """Let the threads end behind the last job."""
    for _ in threads:
        tasks.put(None)


@atexit.register
def _leave() -> None:
    """Drop what has not begun, and give what runs a while: nobody waits for it any more."""
    found = list(_OPEN)
    for each in found:
        each.cancel()
    end = time.monotonic() + PATIENCE
    for thread in (thread for each in found for thread in each._threads):
        thread.join(max(end - time.monotonic(), 0))


def _go_on_in_child() -> None:
    for each in list(_OPEN):
        each.restart()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_go_on_in_child)
