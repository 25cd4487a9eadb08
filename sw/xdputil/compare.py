# SPDX-License-Identifier: Apache-2.0
"""``xdputil comp_float``: two files of floats, equal but for a percentage."""

import pathlib
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import typer

from opendpu.cli.app import errors_in_one_line
from opendpu_arch import inputs
from opendpu_arch.errors import TensorError
from xdputil.app import app

File = Annotated[pathlib.Path, typer.Argument(show_default=False)]


@app.command("comp_float")
@errors_in_one_line
def compare_floats(
    context: typer.Context,
    golden_file: File,
    dump_file: File,
    threshold: Annotated[
        float, typer.Option("-t", "--threshold", min=0, help="Allowed difference, in %.")
    ] = 0.5,
    verbose: Annotated[bool, typer.Option("--verbose", help="Show every difference.")] = False,
) -> None:
    """Compare files of float32 numbers; exit code 1 where they differ by more than allowed."""
    golden, found = _floats(golden_file), _floats(dump_file)
    if golden.size != found.size:
        raise TensorError(
            f"{golden_file} has {golden.size} numbers, but {dump_file} has {found.size}"
        )
    with np.errstate(invalid="ignore"):  # of infinities that are equal, and numbers that are none
        allowed = np.abs(golden.astype(np.float64)) * (threshold / 100)
        difference = np.abs(found.astype(np.float64) - golden)
    same = (golden == found) | (np.isnan(golden) & np.isnan(found))
    wrong = np.flatnonzero(~((difference <= allowed) | same))
    if verbose:
        for place in wrong:
            typer.echo(f"[{place}] golden {golden[place]:g}, dump {found[place]:g}")
    typer.echo("float bin file comparison done.")
    if wrong.size:
        first = wrong[0]
        typer.echo(
            f"{wrong.size} of {golden.size} numbers differ by more than {threshold:g} %, first "
            f"number {first}: golden {golden[first]:g}, dump {found[first]:g}"
        )
        raise typer.Exit(1)
    typer.echo("golden file and dump file are the same!")


def _floats(path: pathlib.Path) -> npt.NDArray[Any]:
    try:
        data = inputs.read_bytes(path)
    except OSError as error:
        raise TensorError(f"{path} cannot be read: {error.strerror}") from error
    if not data or len(data) % 4:
        raise TensorError(f"{path} has {len(data)} bytes, which are no float32 numbers")
    return np.frombuffer(data, "<f4")
