# SPDX-License-Identifier: Apache-2.0
"""The shared library that onnxruntime loads: built from ``entry.c``, kept by its content's hash."""

import ctypes
import functools
import os
import pathlib
import shutil
import subprocess
import sysconfig

from opendpu_arch import cache
from opendpu_arch.errors import ToolError

SOURCE = pathlib.Path(__file__).with_name("entry.c")
COMPILERS = ("cc", "gcc", "g++", "clang")
"""Compilers that are looked for, unless the environment's ``CC`` names one."""
FLAGS = ("-x", "c", "-O1", "-fPIC", "-shared")


def compiler() -> str | None:
    """Return the C compiler of this machine, if there is one."""
    wanted = os.environ.get("CC")
    found = (shutil.which(name) for name in ([wanted] if wanted else COMPILERS))
    return next((path for path in found if path), None)


@functools.cache
def library_path() -> pathlib.Path:
    """Return the library in the cache; built, in a tenth of a second, where it is not there.

    Raises
    ------
    ToolError
        There is no C compiler, or it fails.
    """
    suffix = sysconfig.get_config_var("SHLIB_SUFFIX") or ".so"
    name = cache.digest(SOURCE.read_bytes(), *FLAGS)
    return cache.entry("onnxruntime", f"libopendpu_onnxruntime_{name}{suffix}", _build)


def _build(path: pathlib.Path) -> None:
    found = compiler()
    if found is None:
        raise ToolError(
            f"onnxruntime's execution provider library needs a C compiler ({', '.join(COMPILERS)}) "
            "to be built; opendpu.onnxruntime.InferenceSession works without"
        )
    command = [found, *FLAGS, "-o", str(path), str(SOURCE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ToolError(f"{found} failed to build {SOURCE}: {done.stderr.strip()}")


@functools.cache
def loaded() -> ctypes.CDLL:
    """Return the library, loaded into this process."""
    return ctypes.CDLL(str(library_path()))
