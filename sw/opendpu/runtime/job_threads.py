# SPDX-License-Identifier: Apache-2.0
"""One job, and the threads that execute jobs.

To hand a job to a thread that sleeps, and its result back, takes longer than many a job. So where
whoever waited executed the jobs so far, as they were brief, the next one is held back for it, and a
thread that looks every moment begins it if nobody has come.
"""

import queue
import threading
import time
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

Result = TypeVar("Result")

MOMENT = 0.001
"""Seconds between two looks at a job that is held back."""

QUIET = 3
"""Looks without a new job after which nobody looks any more."""


class Owner(Protocol):
    """What is told of a job's end."""

    def ended(self, value: Any, seconds: float) -> None:
        """Take the result of a job, and what it took."""

    def freed(self) -> None:
        """Let the next job have the room of one that has finished, or failed."""


class OneJob(Generic[Result]):
    """A function, and later what came of it."""

    __slots__ = ("_begun", "_done", "_owner", "_run", "error", "value")

    def __init__(self, owner: Owner, run: Callable[[], Result]) -> None:
        self._owner: Owner | None = owner
        self._run: Callable[[], Result] | None = run
        self._begun = threading.Lock()
        self._done = threading.Lock()
        self._done.acquire()  # until the job has finished
        self.value: Result | None = None
        self.error: BaseException | None = None

    def claim(self) -> bool:
        """Tell whether the job is the caller's to execute or drop: the first one's who asks."""
        return self._begun.acquire(blocking=False)

    def execute(self) -> None:
        """Run the function of a job that was claimed, and keep what comes of it."""
        run, owner = self._run, self._owner
        assert run is not None
        assert owner is not None
        start = time.perf_counter()
        try:
            value = run()
            owner.ended(value, time.perf_counter() - start)
        except BaseException as error:
            self.finish(error=error)
            return
        del run  # before anybody hears of the end: it holds the job's arrays
        self.finish(value=value)

    def finish(self, *, value: Result | None = None, error: BaseException | None = None) -> None:
        """Let everybody who waits go on."""
        self.value, self.error = value, error
        owner, self._owner, self._run = self._owner, None, None
        if owner is not None:
            owner.freed()
        self._done.release()

    @property
    def begun(self) -> bool:
        """Whether somebody executes the job, or has."""
        return self._begun.locked()

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


class JobThreads:
    """Threads that take jobs in their order; they end behind the last one."""

    def __init__(self) -> None:
        self.threads: list[threading.Thread] = []
        self._tasks: queue.SimpleQueue[OneJob[Any] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._held: OneJob[Any] | None = None
        self._count = 0  # of jobs that were held back
        self._watched = False

    def start(self) -> None:
        """Start one more thread."""
        name = f"dpu-job_{len(self.threads)}"
        thread = threading.Thread(target=self._work, name=name, daemon=True)
        thread.start()
        self.threads.append(thread)

    def put(self, job: OneJob[Any], *, brief: bool) -> None:
        """Give a job to the threads, or hold it back if it is ``brief`` and a thread looks."""
        with self._lock:
            self._hand_over()
            if brief and self._watched:
                self._held = job
                self._count += 1
            else:
                self._tasks.put(job)

    def hand_over(self) -> None:
        """Give the threads what is held back."""
        with self._lock:
            self._hand_over()

    def drop(self) -> list[OneJob[Any]]:
        """Return the jobs that nobody has begun; nobody will."""
        self.hand_over()
        found: list[OneJob[Any]] = []
        while True:
            try:
                job = self._tasks.get_nowait()
            except queue.Empty:
                return found
            if job is not None and job.claim():
                found.append(job)

    def stop(self) -> None:
        """Let the threads end behind the last job."""
        self.hand_over()
        for _ in self.threads:
            self._tasks.put(None)

    def _hand_over(self) -> None:
        """Give the threads what is held back; one that is executed elsewhere they wait for."""
        held, self._held = self._held, None
        if held is not None and not held.finished:
            self._tasks.put(held)

    def _work(self) -> None:
        """Execute jobs until there is none but the end."""
        job = self._tasks.get()
        while job is not None:
            if job.claim():
                job.execute()
                del job  # and what came of it, while there is no other
                job = self._tasks.get()
            else:
                job = self._next_beside(job)

    def _next_beside(self, job: OneJob[Any] | None) -> OneJob[Any] | None:
        """Return the next job, where who waits executes this one in the thread's place.

        Meanwhile, jobs are held back, and one that waits in vain is handed over.
        """
        with self._lock:
            watching, self._watched = not self._watched, True
        seen, last, quiet = None, self._count, 0
        try:
            while watching and quiet < QUIET:
                if job is not None:
                    job.wait(None)
                try:
                    job = self._tasks.get(timeout=MOMENT)
                    if job is None or not job.begun:
                        return job
                    continue
                except queue.Empty:
                    job, held, count = None, self._held, self._count
                if held is not None and held is seen and not held.begun:
                    break
                quiet = quiet + 1 if count == last else 0
                seen, last = held, count
        finally:
            if watching:
                with self._lock:
                    self._watched = False
                    self._hand_over()
        if job is not None:
            job.wait(None)
            del job
        return self._tasks.get()
