# SPDX-License-Identifier: Apache-2.0
"""Verilog of the DPU to a shared library with the harness in it; kept in the cache."""

import contextlib
import json
import pathlib
import re
import sys
import tempfile
import time
from collections.abc import Iterator

import rich.console

from opendpu_arch import cache
from opendpu_arch.errors import ToolError
from opendpu_arch.target import Target
from opendpu_hw import verilog
from opendpu_sim.rtl import cxx, tools

HERE = pathlib.Path(__file__).parent
HARNESS = "harness.cpp"

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


def headers() -> list[pathlib.Path]:
    """Return the headers of the harness; the cycle model uses them too."""
    return sorted(HERE.glob("*.h"))


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
    tools.check()
    with _progress(f"elaborating {target.name}"):
        text: str = verilog.elaborate(target, **options)
    return build(text, trace=trace, what=target.name)


def build(text: str, *, trace: bool = False, what: str = verilog.TOP) -> pathlib.Path:
    """Return the library of Verilog text whose top module is ``opendpu_top``.

    ``what`` names it in the progress line. Beside the library lies a ``.json`` with the
    seconds each step took.
    """
    tools.check()

    def make(folder: pathlib.Path) -> None:
        waiting.close()
        folder.mkdir()
        _build(text, trace, what, folder)

    with contextlib.ExitStack() as waiting:
        waiting.enter_context(_progress(f"waiting for another build of {what}"))
        try:
            entry: pathlib.Path = cache.entry("rtl", key(text, trace=trace), make)
        except OSError as error:
            raise ToolError(f"the simulator of {what} cannot be built: {error}") from error
    return entry / "lib.so"


def key(text: str, *, trace: bool) -> str:
    """Return the name in the cache: a digest of the Verilog, the harness, tools and flags."""
    parts = [(path.name, path.read_bytes()) for path in (HERE / HARNESS, *headers())]
    digest: str = cache.digest(
        text,
        *(part for pair in parts for part in pair),
        cxx.key(trace=trace),
        repr(VERILATOR_FLAGS),
    )
    return digest


def _build(text: str, trace: bool, what: str, made: pathlib.Path) -> None:
    with tempfile.TemporaryDirectory(dir=made.parent, prefix="build-") as name:
        folder = pathlib.Path(name)
        (folder / "dut.v").write_text(text, encoding="utf-8")
        start = time.monotonic()
        with _progress(f"Verilator: {what}"):
            extra = ("--trace-fst",) if trace else ()
            tools.run_verilator([*VERILATOR_FLAGS, *extra, "dut.v", "--Mdir", "."], cwd=folder)
        verilated = time.monotonic()
        with _progress(f"C++: {what}"):
            _compile(folder, trace, made / "lib.so")
        seconds = {
            "verilator": round(verilated - start, 3),
            "c++": round(time.monotonic() - verilated, 3),
        }
        (made / "lib.json").write_text(json.dumps(seconds) + "\n", encoding="utf-8")


def _compile(folder: pathlib.Path, trace: bool, library: pathlib.Path) -> None:
    """Compile what Verilator wrote into ``folder`` and the harness to ``library``."""
    root_header = (folder / "Vopendpu_top___024root.h").read_text(encoding="utf-8")
    doubled = re.search(r"\bdpu_2x_clk\b", root_header) is not None
    one_eval = "__Vtrigprevexpr___TOP__aclk__0;" in root_header and not trace and not doubled
    defines = (f"-DOPENDPU_ONE_EVAL={int(one_eval)}", f"-DOPENDPU_DOUBLE_RATE={int(doubled)}")
    flags = ("-fvisibility=hidden", f"-I{HERE}", *defines)
    objects = cxx.compile_model(folder, HERE / HARNESS, trace=trace, flags=flags)
    runtime = [*RUNTIME, *(["verilated_fst_c.cpp"] if trace else [])]
    libraries = ["-lz"] if trace else []
    cxx.link(
        library,
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
