# SPDX-License-Identifier: Apache-2.0
"""C++ of Verilator to objects and libraries."""

import concurrent.futures
import os
import pathlib
import shlex
from collections.abc import Sequence

from opendpu_arch import cache
from opendpu_arch.errors import ToolError
from opendpu_sim.rtl import tools

OPT_FAST = "OPT_FAST"
"""Environment variable with flags for the model's hot code, as in Verilator's own makefiles."""
FAST_FLAGS = ("-O3", "-march=native")
"""For the model's hot code without :data:`OPT_FAST`; its speed lies in the vector units."""
FEW_ALIASES = ("--param", "sccvn-max-alias-queries-per-access=20")
"""For the model's hot code, whatever optimizes it.

A function of Verilator stores thousands of signals, and GCC's value numbering asks of each load
which stores before it may alias, by default up to a thousand times. None does: with this limit
the code is as fast and as small, and compiled in half (``-O1``) to a third (``-O3``) of the time.
"""
SLOW_FLAGS = ("-O0",)
"""For what runs once, such as initial blocks."""
RUNTIME_FLAGS = ("-O1",)
"""For Verilator's own library."""
COMMON_FLAGS = ("-std=c++17", "-fPIC", "-fno-gnu-unique", "-w")
INCLUDE_FOLDERS = ("/usr/include", "/usr/local/include")
COMPAT = pathlib.Path(__file__).parent / "compat"


def key(*, trace: bool) -> str:
    """Return a digest of all that the machine code depends on beside the sources."""
    digest: str = cache.digest(
        tools.verilator_version(),
        tools.host(),
        (COMPAT / "lz4.h").read_bytes(),
        repr((_flags(trace), _fast_flags(), SLOW_FLAGS, RUNTIME_FLAGS)),
    )
    return digest


def compile_model(
    folder: pathlib.Path, main: pathlib.Path, *, trace: bool, flags: Sequence[str] = ()
) -> list[pathlib.Path]:
    """Compile every source in a folder of Verilator, and ``main``; return the objects."""
    sources = sorted(folder.glob("*.cpp"), key=lambda p: p.stat().st_size, reverse=True)
    fast = _fast_flags()
    jobs = [
        (unit, chosen)
        for name, slow, chosen in (("fast", False, fast), ("slow", True, SLOW_FLAGS))
        for unit in _units([p for p in sources if ("Slow" in p.stem) == slow], folder, name)
    ]
    return _compile([*jobs, (main, fast)], [*_flags(trace), "-I.", *flags], folder)


def _units(sources: Sequence[pathlib.Path], folder: pathlib.Path, name: str) -> list[pathlib.Path]:
    """Write translation units with some sources each, as many as there are processors.

    Every one reads all of the model's headers, which takes as long as a small source itself.
    Verilator joins its sources in the same way where they are not compiled in parallel.
    """
    count = min(len(sources), os.cpu_count() or 1)
    units: list[list[pathlib.Path]] = [[] for _ in range(count)]
    for source in sources:  # the largest first
        min(units, key=lambda unit: sum(p.stat().st_size for p in unit)).append(source)
    paths = [folder / f"{name}{number}.cpp" for number in range(count)]
    for path, unit in zip(paths, units, strict=True):
        path.write_text("".join(f'#include "{p.name}"\n' for p in unit), encoding="utf-8")
    return paths


def runtime(names: Sequence[str], *, trace: bool) -> list[pathlib.Path]:
    """Return the objects of parts of Verilator's own library, which all models share."""
    if trace and not any(pathlib.Path(p, "zlib.h").exists() for p in INCLUDE_FOLDERS):
        raise ToolError("waveforms need zlib.h; on Debian or Ubuntu: apt install zlib1g-dev")
    digest = cache.digest(key(trace=trace), *names)

    def make(folder: pathlib.Path) -> None:
        folder.mkdir()
        include = tools.VERILATOR_ROOT / "include"
        _compile([(include / n, RUNTIME_FLAGS) for n in names], _flags(trace), folder)

    folder: pathlib.Path = cache.entry("rtl", f"runtime-{digest}", make)
    return sorted(folder.glob("*.o"))


def link(output: pathlib.Path, objects: Sequence[pathlib.Path], options: Sequence[str]) -> None:
    """Link objects to a library or program."""
    command = [tools.compiler(), "-o", str(output), *map(str, objects), "-pthread", *options]
    tools.run(command, cwd=output.parent)


def _fast_flags() -> tuple[str, ...]:
    given = os.environ.get(OPT_FAST)
    return (*FEW_ALIASES, *(FAST_FLAGS if given is None else shlex.split(given)))


def _flags(trace: bool) -> list[str]:
    include = tools.VERILATOR_ROOT / "include"
    return [
        *COMMON_FLAGS,
        f"-I{include}",
        f"-I{include / 'vltstd'}",
        f"-I{include / 'fstcpp'}",
        "-idirafter",
        str(COMPAT),
        f"-DVM_TRACE={int(trace)}",
        f"-DVM_TRACE_FST={int(trace)}",
        "-DVM_COVERAGE=0",
        "-DVM_SC=0",
    ]


def _compile(
    jobs: Sequence[tuple[pathlib.Path, tuple[str, ...]]], flags: Sequence[str], folder: pathlib.Path
) -> list[pathlib.Path]:
    """Compile sources into ``folder``, as many at a time as there are processors."""
    programs = tools.Programs()

    def one(job: tuple[pathlib.Path, tuple[str, ...]]) -> pathlib.Path:
        source, optimize = job
        output = folder / f"{source.stem}.o"
        command = [tools.compiler(), *optimize, *flags, "-c", str(source), "-o", str(output)]
        programs.run(command, cwd=folder)
        return output

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        try:
            return list(pool.map(one, jobs))
        except BaseException:  # such as Ctrl-C: the threads would finish what they have begun
            pool.shutdown(wait=False, cancel_futures=True)
            programs.stop()
            raise
