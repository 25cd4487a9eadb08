# SPDX-License-Identifier: Apache-2.0
"""What is counted already, as lines in a file, so that an evaluation goes on where it ended."""

import json
import os
import pathlib
from collections.abc import Sequence
from types import TracebackType
from typing import IO, Any, Self

from opendpu.data_sets.metrics import Counts, as_line
from opendpu.data_sets.work import Task
from opendpu_arch import outputs


class ProgressFile:
    """Counts by task; the first line says what they are of.

    Parameters
    ----------
    path
        The file. One of another evaluation, or none, is begun anew.
    digest
        Of everything that the counts depend on.

    Raises
    ------
    OutputError
        The file cannot be written.
    """

    def __init__(self, path: str | os.PathLike[str], digest: str) -> None:
        self.path = pathlib.Path(path)
        self.counts = _read(self.path, digest)
        outputs.check(self.path)
        lines = [as_line({"evaluation": digest})]
        lines += [_line(task, counts) for task, counts in self.counts.items()]
        outputs.write(self.path, "\n".join(lines) + "\n")  # without a line that was torn
        self._file: IO[str] = self.path.open("a", encoding="utf-8")

    def waiting(self, tasks: Sequence[Task]) -> list[Task]:
        """Return the tasks that nobody has done."""
        return [task for task in tasks if task not in self.counts]

    def add(self, task: Task, counts: Counts) -> None:
        """Keep counts; those of a task that is done already are left out."""
        if task in self.counts:
            return
        self.counts[task] = counts
        try:
            self._file.write(_line(task, counts) + "\n")
            self._file.flush()
        except OSError as error:
            raise outputs.refusal(self.path, error.strerror or str(error)) from error

    def __enter__(self) -> Self:
        """Return it."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the file."""
        self._file.close()


def _line(task: Task, counts: Counts) -> str:
    return as_line({"task": [task.variant, task.start, task.stop], "counts": counts})


def _read(path: pathlib.Path, digest: str) -> dict[Task, Counts]:
    """Return what a file of this evaluation has; a torn last line is left out."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return {}
    values: list[Any] = []
    for line in lines:
        try:
            values.append(json.loads(line))
        except ValueError:
            break
    if not values or values[0] != {"evaluation": digest}:
        return {}
    return {Task(*value["task"]): value["counts"] for value in values[1:]}
