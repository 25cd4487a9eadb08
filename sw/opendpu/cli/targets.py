# SPDX-License-Identifier: Apache-2.0
"""``opendpu targets``."""

import json
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

from opendpu.cli.app import JsonFlag, app, errors_in_one_line
from opendpu_arch.target import Target, registered


@app.command()
@errors_in_one_line
def targets(context: typer.Context, as_json: JsonFlag = False) -> None:
    """List the DPUs that have a name."""
    entries = [_describe(Target.from_fingerprint(value)) for value in registered().values()]
    if as_json:
        typer.echo(json.dumps(entries, indent=2))
        return
    table = Table(box=None)
    for column in ("target", "fingerprint"):
        table.add_column(column, no_wrap=True)
    for column in ("MACs/cycle", "PP", "CP", "ALU PP", "banks"):
        table.add_column(column, justify="right")
    for entry in entries:
        table.add_row(*(str(value) for value in entry.values()))
    Console().print(table)


def _describe(target: Target) -> dict[str, Any]:
    return {
        "name": target.name,
        "fingerprint": f"{target.fingerprint:#x}",
        "macs_per_cycle": target.macs_per_cycle,
        "pixel_parallel": target.pixel_parallel,
        "channel_parallel": target.channel_parallel,
        "alu_pixel_parallel": target.alu_pixel_parallel,
        "banks": target.bank_count,
    }
