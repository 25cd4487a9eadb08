# SPDX-License-Identifier: Apache-2.0
"""Build one component, or the whole DPU, for cocotb and run a bench on it from pytest."""

import importlib.metadata
import json
import os
import pathlib
import re
import sys
import tempfile
from collections.abc import Mapping
from typing import Any

import cocotb_tools.config
import cocotb_tools.runner
from cocotb_tools.check_results import get_results

from opendpu_arch import cache
from opendpu_arch.errors import ToolError
from opendpu_hw.verilog import to_verilog
from opendpu_sim.rtl import cxx, tools

DUT = "dut"
"""Name of the top module of a component under test."""
PARAMETERS = "OPENDPU_BENCH"
"""Environment variable with a bench's parameters, JSON."""

_RUNTIME = ("verilated.cpp", "verilated_threads.cpp", "verilated_vpi.cpp", "verilated_dpi.cpp")
_FLAGS = (
    "--cc",
    "--vpi",
    "--prefix",
    "Vtop",
    "-O3",
    "--no-assert",
    "--no-timing",
    "--timescale",
    "1ns/1ps",
    "-Wno-fatal",
    "-Wno-lint",
    "-Wno-style",
)


def build_component(component: Any) -> pathlib.Path:
    """Return the folder with the simulator of an Amaranth component."""
    return build(to_verilog(component, DUT), DUT)


def build(text: str, top: str) -> pathlib.Path:
    """Return the folder with the cocotb simulator of Verilog text; kept in the cache.

    Only the ports of ``top`` can be reached from a bench, which keeps the model quick.
    """
    key = cache.digest(
        text, top, cxx.key(trace=False), repr((_FLAGS, importlib.metadata.version("cocotb")))
    )

    def make(made: pathlib.Path) -> None:
        with tempfile.TemporaryDirectory(dir=made.parent, prefix="build-") as name:
            _build(pathlib.Path(name), text, top)
            made.mkdir()
            (pathlib.Path(name) / top).replace(made / top)

    folder: pathlib.Path = cache.entry("cocotb", key, make)
    return folder


def _build(folder: pathlib.Path, text: str, top: str) -> None:
    (folder / "dut.v").write_text(text, encoding="utf-8")
    module = text[text.index(f"module {top}(") :]
    module = module[: module.index("endmodule")]
    ports = re.findall(r"^  (?:input|output) (?:\[\d+:0\] )?(\w+)\s*;", module, re.M)
    visible = [f'public_flat_rw -module "{top}" -var "{port}"\n' for port in ports]
    (folder / "ports.vlt").write_text("`verilator_config\n" + "".join(visible), encoding="utf-8")
    tools.run_verilator(
        [*_FLAGS, "--top-module", top, "--Mdir", ".", "ports.vlt", "dut.v"], cwd=folder
    )
    main = cocotb_tools.config.share_dir / "lib" / "verilator" / "verilator.cpp"
    objects = cxx.compile_model(folder, main, trace=False)
    libraries = cocotb_tools.config.libs_dir
    options = [f"-Wl,-rpath,{libraries}", f"-L{libraries}", "-lcocotbvpi_verilator", "-ldl"]
    cxx.link(folder / top, [*objects, *cxx.runtime(_RUNTIME, trace=False)], options)


def run(
    simulator: pathlib.Path,
    top: str,
    bench: pathlib.Path,
    where: pathlib.Path,
    parameters: Mapping[str, Any] | None = None,
) -> None:
    """Run the cocotb tests of a bench file; parameters reach it through :func:`parameters_of`.

    Parameters
    ----------
    simulator
        Folder from :func:`build`.
    where
        Folder for log and results.

    Raises
    ------
    AssertionError
        A test of the bench failed, or none ran; the message ends with the log.
    """
    log = where / f"{bench.stem}.log"
    results = where / f"{bench.stem}.xml"
    runner = cocotb_tools.runner.get_runner("verilator")
    environment = {PARAMETERS: json.dumps(dict(parameters or {}))}
    path = list(sys.path)
    sys.path.insert(0, str(bench.parent))
    try:
        runner.test(
            test_module=bench.stem,
            hdl_toplevel=top,
            hdl_toplevel_lang="verilog",
            build_dir=simulator,
            test_dir=where,
            results_xml=str(results),
            extra_env=environment,
            log_file=log,
        )
        tests, failed = get_results(results)
    except (SystemExit, RuntimeError) as error:
        raise AssertionError(f"{bench.name}: {error}\n{_tail(log)}") from error
    finally:
        sys.path[:] = path
    if failed or not tests:
        raise AssertionError(f"{bench.name}: {failed} of {tests} tests failed\n{_tail(log)}")


def parameters_of() -> dict[str, Any]:
    """Return, inside a bench, the parameters that :func:`run` was given."""
    text = os.environ.get(PARAMETERS)
    if text is None:
        raise ToolError(f"{PARAMETERS} is not set; benches are started by opendpu_sim.tb.run.run")
    parameters: dict[str, Any] = json.loads(text)
    return parameters


def _tail(log: pathlib.Path) -> str:
    if not log.exists():
        return "(no log)"
    return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-60:])
