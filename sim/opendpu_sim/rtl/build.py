# SPDX-License-Identifier: Apache-2.0
"""Verilog of the DPU to a shared library with the harness in it; kept in the cache."""

import concurrent.futures
import contextlib
import json
import os
import pathlib
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence

import rich.console

from opendpu_arch.errors import ToolError
from opendpu_arch.target import Target
from opendpu_hw import cache, verilog
from opendpu_sim.rtl import tools

HERE = pathlib.Path(__file__).parent
HARNESS = HERE / "harness.cpp"

VERILATOR_FLAGS = (
    "--cc",
    "--prefix",
    "Vopendpu_top",
    "--top-module",
    verilog.TOP,
    "-O3",
    "--x-assign",
    "fast",
    "--x-initial",
    "fast",
    "--no-assert",
    "--no-timing",
    "-Wno-fatal",
    "-Wno-lint",
    "-Wno-style",
    "-Wno-SYMRSVDWORD",
)
FAST_FLAGS = ("-O3", "-march=native")
"""For the model's hot code; measured, see docs."""
SLOW_FLAGS = ("-O1",)
"""For what runs once, such as initial blocks."""
COMMON_FLAGS = ("-std=c++17", "-fPIC", "-fvisibility=hidden", "-w")
RUNTIME = ("verilated.cpp", "verilated_threads.cpp")
INCLUDE_FOLDERS = ("/usr/include", "/usr/local/include")


def library(target: Target, *, trace: bool = False, **options: object) -> pathlib.Path:
    """Return the library of a target's RTL, built where it is not in the cache.

    Parameters
    ----------
    trace
        Whether it can write FST waveforms; such a library is slower.
    options
        Passed to :class:`opendpu_hw.top.Top`.

    Raises
    ------
    ToolError
        A program of the host is missing or failed.
    """
    with _progress(f"elaborating {target.name}"):
        text: str = verilog.elaborate(target, **options)
    return build(text, trace=trace, what=target.name)


def build(text: str, *, trace: bool = False, what: str = verilog.TOP) -> pathlib.Path:
    """Return the library of Verilog text whose top module is ``opendpu_top``.

    ``what`` names it in the progress line. Beside the library lies a ``.json`` with the
    seconds each step took.
    """
    key = cache.digest(
        text,
        HARNESS.read_bytes(),
        (HERE / "compat" / "lz4.h").read_bytes(),
        tools.verilator_version(),
        tools.host(),
        repr((VERILATOR_FLAGS, FAST_FLAGS, SLOW_FLAGS, COMMON_FLAGS, trace)),
    )
    root: pathlib.Path = cache.folder() / "rtl"
    path = root / f"{key}.so"
    if path.exists():
        return path
    tools.find("make")
    with _progress(f"waiting for another build of {what}"), cache.locked(root / f"{key}.lock"):
        if not path.exists():
            _build(text, trace, what, path)
    return path


def _build(text: str, trace: bool, what: str, path: pathlib.Path) -> None:
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".build-") as name:
        folder = pathlib.Path(name)
        (folder / "dut.v").write_text(text, encoding="utf-8")
        start = time.monotonic()
        with _progress(f"Verilator: {what}"):
            extra = ("--trace-fst",) if trace else ()
            tools.run_verilator([*VERILATOR_FLAGS, *extra, "dut.v", "--Mdir", "."], cwd=folder)
        verilated = time.monotonic()
        with _progress(f"C++: {what}"):
            _compile(folder, trace)
        seconds = {
            "verilator": round(verilated - start, 3),
            "c++": round(time.monotonic() - verilated, 3),
        }
        cache.write_atomically(path.with_suffix(".json"), json.dumps(seconds) + "\n")
        (folder / "lib.so").replace(path)


def _compile(folder: pathlib.Path, trace: bool) -> None:
    """Compile what Verilator wrote into ``folder`` and the harness; link with the run-time."""
    root_header = (folder / "Vopendpu_top___024root.h").read_text(encoding="utf-8")
    one_eval = "__Vtrigprevexpr___TOP__aclk__0;" in root_header and not trace
    flags = [*_flags(trace), "-I.", f"-DOPENDPU_ONE_EVAL={int(one_eval)}"]
    sources = sorted(folder.glob("*.cpp"), key=lambda p: p.stat().st_size, reverse=True)
    jobs = [(p, SLOW_FLAGS if "Slow" in p.stem else FAST_FLAGS) for p in sources]
    objects = [*_compile_all([*jobs, (HARNESS, FAST_FLAGS)], flags, folder), *_runtime(trace)]
    libraries = ["-lz"] if trace else []
    tools.run(
        [tools.compiler(), "-shared", "-o", "lib.so", *objects, "-pthread", *libraries], cwd=folder
    )


def _flags(trace: bool) -> list[str]:
    include = tools.VERILATOR_ROOT / "include"
    return [
        *COMMON_FLAGS,
        f"-I{include}",
        f"-I{include / 'vltstd'}",
        f"-I{include / 'fstcpp'}",
        "-idirafter",
        str(HERE / "compat"),
        f"-DVM_TRACE={int(trace)}",
        f"-DVM_TRACE_FST={int(trace)}",
        "-DVM_COVERAGE=0",
        "-DVM_SC=0",
    ]


def _runtime(trace: bool) -> list[pathlib.Path]:
    """Return the objects of Verilator's own library, which all designs share."""
    include = tools.VERILATOR_ROOT / "include"
    names = [*RUNTIME, *(["verilated_fst_c.cpp"] if trace else [])]
    if trace and not any(pathlib.Path(p, "zlib.h").exists() for p in INCLUDE_FOLDERS):
        raise ToolError("waveforms need zlib.h; on Debian or Ubuntu: apt install zlib1g-dev")
    key = cache.digest(
        tools.verilator_version(), tools.host(), repr((_flags(trace), SLOW_FLAGS, names))
    )
    folder: pathlib.Path = cache.folder() / "rtl" / f"runtime-{key}"
    if not folder.exists():
        with cache.locked(folder.with_suffix(".lock")):
            if not folder.exists():
                with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".build-") as name:
                    made = pathlib.Path(name) / "objects"
                    made.mkdir()
                    _compile_all([(include / n, SLOW_FLAGS) for n in names], _flags(trace), made)
                    made.replace(folder)
    return sorted(folder.glob("*.o"))


def _compile_all(
    jobs: Sequence[tuple[pathlib.Path, tuple[str, ...]]], flags: Sequence[str], folder: pathlib.Path
) -> list[pathlib.Path]:
    """Compile sources, as many at a time as there are processors; return the objects."""

    def one(job: tuple[pathlib.Path, tuple[str, ...]]) -> pathlib.Path:
        source, optimize = job
        output = folder / f"{source.stem}.o"
        tools.run([tools.compiler(), *optimize, *flags, "-c", source, "-o", output], cwd=folder)
        return output

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        return list(pool.map(one, jobs))


@contextlib.contextmanager
def _progress(text: str) -> Iterator[None]:
    """Show what is being done while it is done; only on a terminal."""
    if sys.stderr.isatty():
        with rich.console.Console(stderr=True).status(text):
            yield
    else:
        yield
