# SPDX-License-Identifier: Apache-2.0
"""What every runner does with the jobs it has started."""

import operator
from types import TracebackType
from typing import Any, Generic, NoReturn, Self

from opendpu.runtime.job_threads import Result
from opendpu.runtime.jobs import JobQueue


class JobRunner(Generic[Result]):
    """Base of the runners: waits for jobs, tells what they took, and is a context manager."""

    _jobs: JobQueue[Result]

    def wait(self, job: int | tuple[int, int], timeout_seconds: float | None = None) -> int:
        """Wait for a job and return 0; what made it fail is raised here.

        Raises
        ------
        DPUTimeoutError
            The job has not finished in time; it goes on.
        """
        self.statistics(job, timeout_seconds)
        return 0

    def statistics(
        self, job: int | tuple[int, int], timeout_seconds: float | None = None
    ) -> Result:
        """Return what a job took; waits for it. Kept for the last 1024 jobs waited for."""
        return self._jobs.result(_number(job), timeout_seconds)

    def __reduce__(self) -> NoReturn:
        """Refuse to be copied or sent to another process: threads and devices cannot be."""
        raise TypeError(
            "a runner cannot be copied or given to another process; give it the graph or the path "
            "of its file, and create a runner there"
        )

    def cancel(self) -> None:
        """Drop the jobs that have not begun."""
        self._jobs.cancel()

    def close(self) -> None:
        """Finish every job."""
        self._jobs.close()

    def __enter__(self) -> Self:
        """Return the runner."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the runner; after Ctrl-C without finishing the jobs."""
        if kind is not None and not issubclass(kind, Exception):
            self.cancel()
        self.close()

    @property
    def last_statistics(self) -> Result | None:
        """What the job that finished last took; nothing before the first."""
        return self._jobs.last


def _number(job: Any) -> int:
    """Return the number of a job that is given as such, or with its status."""
    try:
        return operator.index(job[0] if isinstance(job, tuple | list) and job else job)
    except TypeError:
        raise TypeError(
            f"job is of type {type(job).__name__}, but must be what execute_async returned: a "
            "number and a status, or the number"
        ) from None
