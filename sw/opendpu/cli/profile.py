# SPDX-License-Identifier: Apache-2.0
"""``opendpu profile``."""

import pathlib
from typing import Annotated

import typer

from opendpu import api
from opendpu.cli.app import File, app, errors_in_one_line
from opendpu.cli.progress import progress
from opendpu.cli.run_options import Memory
from opendpu.drawing import Canvas
from opendpu.profile.roofline import roofline
from opendpu.profile.tables import csv_text, json_text, text
from opendpu.profile.trace import trace_json
from opendpu_arch import outputs
from opendpu_arch.errors import UnsupportedError
from opendpu_arch.target import CLOCK_MHZ

PICTURES = (".svg", ".png")


@app.command("profile")
@errors_in_one_line
def profile_model(
    context: typer.Context,
    file: File,
    device: Annotated[
        str | None, typer.Option(help="rtl, cycle; by default cycle where it is installed.")
    ] = None,
    memory: Memory = None,
    clock: Annotated[
        float, typer.Option(metavar="MHZ", min=1, help="Clock for times.")
    ] = CLOCK_MHZ,
    trace: Annotated[
        pathlib.Path | None,
        typer.Option(metavar="OUT.json", help="Timeline for Perfetto, a track an engine."),
    ] = None,
    tokens: Annotated[bool, typer.Option(help="Arrows in the timeline for tokens.")] = True,
    picture: Annotated[
        pathlib.Path | None,
        typer.Option("--roofline", metavar="OUT.svg|OUT.png", help="Roofline picture."),
    ] = None,
    csv_file: Annotated[
        pathlib.Path | None, typer.Option("--csv", metavar="OUT.csv", help="The table as CSV.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Run a compiled model once and say where its cycles went, layer by layer."""
    if picture is not None and picture.suffix not in PICTURES:
        raise UnsupportedError(f"--roofline is {picture}, but must end in {' or '.join(PICTURES)}")
    if picture is not None and picture.suffix == ".png":
        Canvas(1, 1).png()  # raises now, not after a long run, where Pillow is missing
    outputs.check_all((trace, picture, csv_file), inputs=(file,))
    with progress(f"profiling {file.name}") as show:
        found = api.profile(file, device=device, memory=memory, clock_mhz=clock, show=show)
    if trace is not None:
        outputs.write(trace, trace_json(found, tokens=tokens))
    if picture is not None:
        drawn = roofline(found)
        outputs.write(picture, drawn.svg() if picture.suffix == ".svg" else drawn.png())
    if csv_file is not None:
        outputs.write(csv_file, csv_text(found))
    typer.echo(json_text(found) if as_json else text(found), nl=False)
