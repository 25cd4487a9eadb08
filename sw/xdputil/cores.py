# SPDX-License-Identifier: Apache-2.0
"""``show_dpu``: a line for each core of the DPU that models would run on."""

import typer

from opendpu.cli.app import errors_in_one_line
from opendpu.runtime.devices import core_count
from opendpu.targets import chosen_target
from xdputil.query import chosen_device

app = typer.Typer(
    name="show_dpu",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.command()
@errors_in_one_line
def show_dpu(context: typer.Context) -> None:
    """Show the cores, their fingerprint and the device that stands for them."""
    target, device = chosen_target(None), chosen_device()
    for core in range(core_count()):
        typer.echo(
            f"device_core_id={core} device= 0 core = {core} fingerprint = {target.fingerprint:#x} "
            f"batch = 1 full_cu_name={device}:dpu{core}"
        )


def main() -> None:
    """Run the command line."""
    app(prog_name="show_dpu")
