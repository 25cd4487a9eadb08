# SPDX-License-Identifier: Apache-2.0
"""Copies of the work tree with a cache of their own, and runs of pytest in them."""

import contextlib
import dataclasses
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence

from mutation.mutant import REPOSITORY
from opendpu_arch.errors import ToolError

LEFT_OUT = (".git", ".venv*", "__pycache__", ".*_cache", ".hypothesis", "build", "sim_build")
"""Not copied: what tests do not need, or make anew."""
SOURCES = ("arch", "hw", "sw", "sim")
_FAILURE = re.compile(r"^(?:FAILED|ERROR) (\S+?::.+?|\S+)(?: - .*)?$", re.M)
_PASSED, _FAILED, _INTERRUPTED = 0, 1, 2


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What a run of tests came to."""

    passed: bool
    by: str | None
    """The first test that failed, or that the run took too long."""
    output: str


class Sandbox:
    """Makes copies of the work tree in a folder that is removed at the end.

    Simulators that the first runs build are shared by all copies; what a copy builds itself stays
    its own, so that no fault reaches another copy through the cache.
    """

    def __init__(self, folder: pathlib.Path, *, seed: int, seconds: float) -> None:
        self._folder = folder
        self._seed = seed
        self._seconds = seconds
        self._cache = folder / "cache"
        self._cache.mkdir()

    @contextlib.contextmanager
    def copy(self) -> Iterator[pathlib.Path]:
        """Make a copy of the work tree for as long as the block runs."""
        with tempfile.TemporaryDirectory(dir=self._folder, prefix="copy-") as name:
            tree = pathlib.Path(name) / "tree"
            shutil.copytree(REPOSITORY, tree, ignore=shutil.ignore_patterns(*LEFT_OUT))
            yield tree

    def test(
        self, tree: pathlib.Path, tests: Sequence[str], *, jobs: int = 1, keep_cache: bool = False
    ) -> Verdict:
        """Run tests of a copy until the first failure.

        ``keep_cache`` leaves what is built to the copies after this one.

        Raises
        ------
        ToolError
            pytest could not run these tests: there are none, or it was used wrongly.
        """
        cache = self._cache
        if not keep_cache:
            cache = tree.parent / "cache"
            if not cache.exists():
                shutil.copytree(self._cache, cache, copy_function=os.link)
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-rfE", "-p", "no:cacheprovider"]
        if jobs > 1:
            command += ["-n", str(jobs), "--dist", "worksteal"]
        status, output = _run(
            [*command, *tests], tree, self._environment(tree, cache), self._seconds
        )
        if status is None:
            return Verdict(False, f"no end after {self._seconds:g} seconds", output)
        if status == _PASSED:
            return Verdict(True, None, output)
        failures = _FAILURE.findall(output)
        if status not in (_FAILED, _INTERRUPTED) or not failures:
            raise ToolError(f"pytest ended with status {status}:\n{output[-2000:]}")
        return Verdict(False, failures[0], output)

    def _environment(self, tree: pathlib.Path, cache: pathlib.Path) -> dict[str, str]:
        models = REPOSITORY.parent / "shared" / "models"
        return {
            "OPENDPU_MODELS": str(models),
            **os.environ,
            "PYTHONPATH": os.pathsep.join(str(tree / part) for part in SOURCES),
            "OPENDPU_CACHE": str(cache),
            "OPENDPU_SEED": str(self._seed),
        }


def _run(
    command: Sequence[str], folder: pathlib.Path, environment: dict[str, str], seconds: float
) -> tuple[int | None, str]:
    """Return exit status and output of a program, no status where it takes too long.

    Nothing it has started stays behind.
    """
    with subprocess.Popen(
        command, cwd=folder, env=environment, text=True, start_new_session=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    ) as process:  # fmt: skip
        try:
            output, _ = process.communicate(timeout=seconds)
            return process.returncode, output
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
            return None, output
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
