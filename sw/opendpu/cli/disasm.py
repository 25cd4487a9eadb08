# SPDX-License-Identifier: Apache-2.0
"""``opendpu disasm``."""

from typing import Annotated

import typer

from opendpu.cli.app import File, app, errors_in_one_line
from opendpu.runtime import listing


@app.command("disasm")
@errors_in_one_line
def disassemble(
    context: typer.Context,
    file: File,
    numbers: Annotated[
        bool, typer.Option(help="Instruction numbers; without them the text can be assembled.")
    ] = True,
) -> None:
    """List the instructions of an .xmodel, or of raw machine code (.bin, .mc)."""
    typer.echo(listing.disassemble_file(file, numbers=numbers), nl=False)
