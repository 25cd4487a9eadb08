# SPDX-License-Identifier: Apache-2.0
"""Builds the C++ library and puts it, with headers and package files, into a folder."""

import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig

from opendpu.cpp import packages
from opendpu_arch import cache, outputs
from opendpu_arch.errors import OutputError, ToolError

ROOT = pathlib.Path(__file__).parent
INCLUDE, SOURCE = ROOT / "include", ROOT / "src"
COMPILERS = ("c++", "g++", "clang++")
"""Compilers that are looked for, unless the environment's ``CXX`` names one."""


def compiler() -> str:
    """Return the C++ compiler of this machine; ToolError if there is none."""
    wanted = os.environ.get("CXX")
    found = [shutil.which(name) for name in ([wanted] if wanted else COMPILERS)]
    path = next((path for path in found if path), None)
    if path is None:
        raise ToolError(
            f"the C++ library needs a compiler ({wanted or ', '.join(COMPILERS)}) to be built"
        )
    return path


def prefix() -> pathlib.Path:
    """Return a folder of the cache with everything installed; built where it is missing.

    Raises
    ------
    ToolError
        A compiler or Python's headers or library are missing, or the compiler fails.
    """
    parts = [str(path.relative_to(ROOT)) for path in _files()]
    parts += [word for pair in packages.files().items() for word in pair]
    contents = [path.read_bytes() for path in _files()]
    version = run([compiler(), "--version"], "tell its version")
    settings = "\0".join([*_flags(pathlib.Path()), version, pathlib.Path(__file__).read_text()])
    name = cache.digest(settings, "\0".join(parts), *contents)
    return cache.entry("cpp", name, _install)


def install(folder: pathlib.Path, built: pathlib.Path | None = None) -> list[pathlib.Path]:
    """Put headers, library and package files below a folder; return the files that there are.

    ``built`` is where they are; None for :func:`prefix`.

    Raises
    ------
    OutputError
        The folder cannot be written.
    ToolError
        See :func:`prefix`.
    """
    built = built or prefix()
    try:
        shutil.copytree(built, folder, dirs_exist_ok=True)
    except (OSError, shutil.Error) as error:
        raise OutputError(f"{folder}: cannot be written: {error}") from error
    files = (path for path in built.rglob("*") if path.is_file())
    return sorted(folder / path.relative_to(built) for path in files)


def _install(folder: pathlib.Path) -> None:
    shutil.copytree(INCLUDE, folder / "include")
    for place, text in packages.files().items():
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        outputs.write(folder / place, text)
    _compile(folder / "lib" / f"lib{packages.LIBRARY}.so")


def _files() -> list[pathlib.Path]:
    return sorted(path for folder in (INCLUDE, SOURCE) for path in folder.rglob("*.*pp")) + sorted(
        INCLUDE.rglob("*.h")
    )


def _flags(library: pathlib.Path) -> list[str]:
    variables = sysconfig.get_config_vars()
    folder = str(variables["LIBDIR"])
    version = str(variables["LDVERSION"])
    paths = sorted({str(pathlib.Path(path).resolve()) for path in _package_folders()})
    quoted = ", ".join(f'"{path}"' for path in paths)
    return [
        "-std=c++17", "-O1", "-fPIC", "-shared", "-Wall", "-Wextra", f"-I{INCLUDE}", f"-I{SOURCE}",
        f"-I{sysconfig.get_path('include')}", f"-I{sysconfig.get_path('platinclude')}",
        f'-DOPENDPU_PYTHON_EXECUTABLE="{sys.executable}"', f"-DOPENDPU_PYTHON_PATHS={quoted}",
        f"-Wl,-soname,lib{packages.LIBRARY}.so", f"-Wl,-rpath,{folder}", "-o", str(library),
        "-x", "c++", "-", f"-L{folder}", f"-lpython{version}",
    ]  # fmt: skip


def _unit() -> str:
    """Return a translation unit of all sources: reading the headers takes most of the time."""
    return "".join(f'#include "{path.name}"\n' for path in sorted(SOURCE.glob("*.cpp")))


def _package_folders() -> list[str]:
    """Return the folders where the packages of this project are found."""
    found = []
    for package in ("opendpu", "opendpu_arch", "opendpu_sim", "opendpu_hw"):
        spec = importlib.util.find_spec(package)
        if spec is not None and spec.submodule_search_locations:
            found.append(str(pathlib.Path(spec.submodule_search_locations[0]).parent))
    return found


def _compile(library: pathlib.Path) -> None:
    header = pathlib.Path(sysconfig.get_path("include")) / "Python.h"
    if not header.is_file():
        raise ToolError(f"the C++ library needs {header}; Debian has it in python3-dev")
    run([compiler(), *_flags(library)], "build the C++ library", _unit())


def run(command: list[str], purpose: str, given: str | None = None) -> str:
    """Run a tool, which reads what is ``given``; return what it prints, ToolError if it fails."""
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ToolError(f"{command[0]} failed to {purpose}: {done.stderr.strip()}")
    return done.stdout
