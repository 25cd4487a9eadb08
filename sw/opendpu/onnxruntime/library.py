# SPDX-License-Identifier: Apache-2.0
"""The shared library that onnxruntime loads: built from ``entry.c``, kept by its content's hash."""

import ctypes
import functools
import hashlib
import os
import pathlib
import shutil
import subprocess
import sysconfig
import tempfile

from opendpu_arch.errors import ToolError

SOURCE = pathlib.Path(__file__).with_name("entry.c")
COMPILERS = ("cc", "gcc", "g++", "clang")
"""Compilers that are looked for, unless the environment's ``CC`` names one."""


def compiler() -> str | None:
    """Return the C compiler of this machine, if there is one."""
    wanted = os.environ.get("CC")
    found = (shutil.which(name) for name in ([wanted] if wanted else COMPILERS))
    return next((path for path in found if path), None)


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    """Return a folder of this process alone: what lies there is what it built itself."""
    return tempfile.TemporaryDirectory(prefix="opendpu-onnxruntime-")


@functools.cache
def library_path() -> pathlib.Path:
    """Return the library, built when it is first asked for; it takes a tenth of a second.

    Raises
    ------
    ToolError
        There is no C compiler, or it fails.
    """
    found = compiler()
    if found is None:
        raise ToolError(
            f"onnxruntime's execution provider library needs a C compiler ({', '.join(COMPILERS)}) "
            "to be built; opendpu.onnxruntime.InferenceSession works without"
        )
    suffix = sysconfig.get_config_var("SHLIB_SUFFIX") or ".so"
    name = hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:16]
    path = pathlib.Path(_folder().name) / f"libopendpu_onnxruntime_{name}{suffix}"
    command = [found, "-x", "c", "-O1", "-fPIC", "-shared", "-o", str(path), str(SOURCE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ToolError(f"{found} failed to build {SOURCE}: {done.stderr.strip()}")
    return path


@functools.cache
def loaded() -> ctypes.CDLL:
    """Return the library, loaded into this process."""
    return ctypes.CDLL(str(library_path()))
