# SPDX-License-Identifier: Apache-2.0
"""``xdputil query``, ``status`` and ``mem``: the DPUs of this computer, which are simulated."""

import importlib.metadata
import os
import pathlib
from typing import Annotated, NoReturn

import typer

from opendpu.cli.app import errors_in_one_line
from opendpu.runtime.devices import DEFAULT_DEVICE, DEVICE_VARIABLE, core_count
from opendpu.targets import chosen_target
from opendpu_arch.errors import UnsupportedError
from opendpu_arch.target import CLOCK_MHZ
from xdputil.app import app, print_json

PARTS = {
    "libvart-runner.so": "vart-runner",
    "libvitis_ai_library-dpu_task.so": "vitis_ai_library dpu_task",
    "libxir.so": "xir",
    "target_factory": "target-factory",
}
"""What stands for AMD's libraries, by the names that scripts look for."""


def chosen_device() -> str:
    """Return the name of the device that programs run on which choose none."""
    return os.environ.get(DEVICE_VARIABLE) or DEFAULT_DEVICE


@app.command("query")
@errors_in_one_line
def query(
    context: typer.Context,
    target: Annotated[
        str | None,
        typer.Option(help="DPU: name, fingerprint or arch.json; else $XLNX_TARGET_NAME or B4096."),
    ] = None,
) -> None:
    """Describe the DPU that models would run on, as JSON."""
    chosen, device = chosen_target(target), chosen_device()
    version = importlib.metadata.version("opendpu")
    cores = core_count()
    print_json(
        {
            "DPU IP Spec": {
                "DPU Core Count": cores,
                "IP version": f"v{version}",
                "regmap": "1to1 version",
            },
            "VAI Version": {
                "opendpu": f"opendpu {version}",
                **{file: f"opendpu {part} Version: {version}" for file, part in PARTS.items()},
            },
            "kernels": [
                {
                    "DPU Arch": chosen.name,
                    "DPU Frequency (MHz)": round(CLOCK_MHZ),
                    "IP Type": "DPU",
                    "cu_idx": core,
                    "cu_name": device,
                    "device_id": 0,
                    "fingerprint": f"{chosen.fingerprint:#x}",
                    "is_vivado_flow": False,
                    "name": f"DPU Core {core}",
                }
                for core in range(cores)
            ],
        }
    )


@app.command("status")
@errors_in_one_line
def status(context: typer.Context) -> None:
    """Show the registers of a DPU; refused here, where each runner has a simulated DPU."""
    _no_board("status", "registers")


@app.command("mem")
@errors_in_one_line
def mem(
    context: typer.Context,
    read: Annotated[bool, typer.Option("-r", help="Read memory into a file.")] = False,
    write: Annotated[bool, typer.Option("-w", help="Write a file into memory.")] = False,
    address: Annotated[str, typer.Argument(show_default=False)] = "",
    size: Annotated[str, typer.Argument(show_default=False)] = "",
    file: Annotated[pathlib.Path | None, typer.Argument(show_default=False)] = None,
) -> None:
    """Read or write physical memory; refused here, where segments are arrays of a runner."""
    _no_board("mem", "physical memory")


def _no_board(command: str, thing: str) -> NoReturn:
    raise UnsupportedError(
        f"xdputil {command} needs a board, but DPUs here are simulated and have no {thing} "
        "outside the program that runs them; use opendpu run --json or opendpu profile"
    )
