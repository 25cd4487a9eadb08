# SPDX-License-Identifier: Apache-2.0
"""Jobs in flight: numbers, worker threads, results and failures."""

import concurrent.futures
import itertools
import os
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from opendpu_arch.errors import DPUError, DPUTimeoutError

Result = TypeVar("Result")

REMEMBERED = 1024
"""Finished jobs whose result can still be asked for."""


class JobQueue(Generic[Result]):
    """Runs functions in worker threads and keeps what they return, by job number."""

    def __init__(self, workers: int | None = None) -> None:
        self._pool = concurrent.futures.ThreadPoolExecutor(
            workers or os.cpu_count() or 1, thread_name_prefix="dpu-job"
        )
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._jobs: dict[int, concurrent.futures.Future[Result]] = {}
        self._waited: dict[int, None] = {}
        self.last: Result | None = None
        """Result of the job that finished last."""

    def submit(self, run: Callable[[], Result]) -> int:
        """Start ``run`` and return the number of its job."""

        def work() -> Result:
            result = run()
            with self._lock:
                self.last = result
            return result

        with self._lock:
            try:
                future = self._pool.submit(work)
            except RuntimeError:
                raise DPUError("the runner is closed") from None
            job = next(self._numbers)
            self._jobs[job] = future
            while len(self._waited) > REMEMBERED:
                oldest = next(iter(self._waited))
                del self._waited[oldest], self._jobs[oldest]
            return job

    def result(self, job: int, timeout_seconds: float | None = None) -> Result:
        """Wait for a job and return its result, or raise what it raised.

        Raises
        ------
        DPUError
            There is no such job.
        DPUTimeoutError
            The job has not finished in time; it goes on.
        """
        with self._lock:
            future = self._jobs.get(job)
        if future is None:
            raise DPUError(f"job {job!r} is unknown; it was never started, or is forgotten")
        try:
            return future.result(timeout_seconds)
        except concurrent.futures.TimeoutError:
            if future.done():
                raise
            raise DPUTimeoutError(
                f"job {job} has not finished after {timeout_seconds} seconds"
            ) from None
        finally:
            if future.done():
                with self._lock:
                    self._waited[job] = None

    def cancel(self) -> None:
        """Drop the jobs that have not begun, and take no more."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def close(self) -> None:
        """Wait for every job and end the threads."""
        self._pool.shutdown()
