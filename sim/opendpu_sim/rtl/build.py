# SPDX-License-Identifier: Apache-2.0
"""Verilog of the DPU to a shared library with the harness in it; kept in the cache."""

import contextlib
import json
import pathlib
import sys
import tempfile
import time
from collections.abc import Iterator

import rich.console

from opendpu_arch.target import Target
from opendpu_hw import cache, verilog
from opendpu_sim.rtl import cxx, tools

HERE = pathlib.Path(__file__).parent
HARNESS = HERE / "harness.cpp"
HEADERS = (HERE / "ddr_timing.h",)

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
RUNTIME = ("verilated.cpp", "verilated_threads.cpp")
"""Parts of Verilator's own library that a model needs."""


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
        *(path.read_bytes() for path in (HARNESS, *HEADERS)),
        cxx.key(trace=trace),
        repr(VERILATOR_FLAGS),
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
    """Compile what Verilator wrote into ``folder`` and the harness to ``lib.so``."""
    root_header = (folder / "Vopendpu_top___024root.h").read_text(encoding="utf-8")
    one_eval = "__Vtrigprevexpr___TOP__aclk__0;" in root_header and not trace
    define = f"-DOPENDPU_ONE_EVAL={int(one_eval)}"
    flags = ("-fvisibility=hidden", f"-I{HERE}", define)
    objects = cxx.compile_model(folder, HARNESS, trace=trace, flags=flags)
    runtime = [*RUNTIME, *(["verilated_fst_c.cpp"] if trace else [])]
    libraries = ["-lz"] if trace else []
    cxx.link(
        folder / "lib.so",
        [*objects, *cxx.runtime(runtime, trace=trace)],
        ["-shared", "-Wl,-Bsymbolic", *libraries],
    )


@contextlib.contextmanager
def _progress(text: str) -> Iterator[None]:
    """Show what is being done while it is done; only on a terminal."""
    if sys.stderr.isatty():
        with rich.console.Console(stderr=True).status(text):
            yield
    else:
        yield
