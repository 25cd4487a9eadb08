# SPDX-License-Identifier: Apache-2.0
"""Jobs in flight: numbers, worker threads, results and failures.

What a job costs beside itself counts: a queue in C and a lock or two a job cost a third of what
executors and futures do, and who waits for a brief one executes it, instead of two threads that
take turns. It does so only where no other is unfinished, so no more jobs run than there are
workers, and where the last one was brief, as Ctrl-C is heard behind it.
"""

import atexit
import concurrent.futures
import itertools
import os
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any, Generic

from opendpu.runtime.job_threads import JobThreads, OneJob, Result
from opendpu_arch.errors import DPUError, DPUTimeoutError

REMEMBERED = 1024
"""Finished jobs whose result can still be asked for."""

QUEUE_SIZE = 256
"""Jobs that may wait for a thread; who submits one more waits."""

BRIEF = 0.02
"""Seconds that the last job took at most where whoever waits for the next one may execute it."""

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
        self._jobs: dict[int, OneJob[Result]] = {}
        self._waited: dict[int, None] = {}
        self.last: Result | None = None
        """Result of the job that finished last."""
        self._seconds = float("inf")  # that it took
        self._begin()
        _OPEN.add(self)

    def _begin(self) -> None:
        """Start without threads and unfinished jobs."""
        self._threads = JobThreads()
        self._lock = threading.Lock()
        self._room = threading.Condition(self._lock)
        self._blocked = 0
        self._unfinished = 0
        self._finalizer = weakref.finalize(self, self._threads.stop)
        self._finalizer.atexit = False

    def submit(self, run: Callable[[], Result]) -> int:
        """Start ``run`` and return the number of its job; waits while the queue is full."""
        job: OneJob[Result] = OneJob(self, run)
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
            if self._unfinished > len(self._threads.threads) < self._workers:
                self._threads.start()
            number = next(self._numbers)
            self._jobs[number] = job
            while len(self._waited) > REMEMBERED:
                oldest = next(iter(self._waited))
                del self._waited[oldest], self._jobs[oldest]
            self._threads.put(job, brief=self._is_brief())
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
        if not found.begun:
            if timeout_seconds is not None or not self._is_brief():
                self._threads.hand_over()
            elif found.claim():
                found.execute()
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
        for job in self._threads.drop():
            job.finish(error=concurrent.futures.CancelledError())
        self._threads.stop()

    def close(self) -> None:
        """Wait for every job and end the threads."""
        self._refuse()
        self._threads.stop()
        for thread in self._threads.threads:
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

    def ended(self, value: Result, seconds: float) -> None:
        """Keep what a job returned, and how long it took; for the job itself."""
        self.last, self._seconds = value, seconds

    def freed(self) -> None:
        """Let the next job have the room of one that has finished; for the job itself."""
        with self._lock:
            self._unfinished -= 1
            if self._blocked:
                self._room.notify()

    def _is_brief(self) -> bool:
        """Tell whether the only job that is unfinished may be executed by whoever waits for it."""
        return self._unfinished == 1 and self._seconds <= BRIEF


@atexit.register
def _leave() -> None:
    """Drop what has not begun, and give what runs a while: nobody waits for it any more."""
    found = list(_OPEN)
    for each in found:
        each.cancel()
    end = time.monotonic() + PATIENCE
    for thread in (thread for each in found for thread in each._threads.threads):
        thread.join(max(end - time.monotonic(), 0))


def _go_on_in_child() -> None:
    for each in list(_OPEN):
        each.restart()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_go_on_in_child)
