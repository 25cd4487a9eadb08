# SPDX-License-Identifier: Apache-2.0
"""``opendpu inspect``."""

import json
import pathlib
from typing import Annotated

import typer

from opendpu import api
from opendpu.cli.app import (
    InputShapes,
    InputValues,
    JsonFlag,
    OnnxLibraries,
    Signature,
    app,
    errors_in_one_line,
)
from opendpu.cli.input_values import input_shapes, input_values
from opendpu.cli.progress import progress
from opendpu.frontend.formats import signed
from opendpu.inspect import FORMATS, check_format, write_files
from opendpu.inspect.text import summary_lines
from opendpu.quantize import check_substitution
from opendpu_arch import outputs
from opendpu_arch.errors import UnsupportedError


@app.command("inspect")
@errors_in_one_line
def inspect_model(
    context: typer.Context,
    file: Annotated[pathlib.Path, typer.Argument(metavar="MODEL", show_default=False)],
    target: Annotated[
        str | None,
        typer.Option(
            help="Name, fingerprint (0x...) or arch.json of the DPU; compiled files know theirs."
        ),
    ] = None,
    input_shape: InputShapes = None,
    input_value: InputValues = None,
    signature: Signature = None,
    activation_substitution: Annotated[
        str, typer.Option(metavar="none|hard", help="As when compiling.")
    ] = "none",
    onnx_library: OnnxLibraries = None,
    output: Annotated[
        pathlib.Path | None,
        typer.Option(
            "--output", "-o", metavar="DIR", help="Write inspect_<target>.txt to this folder."
        ),
    ] = None,
    image_format: Annotated[
        str | None,
        typer.Option(
            "--format", metavar="|".join(FORMATS), help="Draw the network, too; needs --output."
        ),
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="List every operator, not only those on the CPU.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Say which operator of a model goes where on a DPU, and why; no data is needed."""
    check_format(image_format)
    check_substitution(activation_substitution)
    if image_format is not None and output is None:
        raise UnsupportedError("--format draws into a folder: say which (--output DIR)")
    if output is not None:
        outputs.check_folder(output)
    shapes = input_shapes(input_shape)
    values = input_values(input_value)
    file = signed(file, signature)
    with progress(f"inspecting {file.name}") as show:
        found = api.inspect(
            file, target=target, input_shapes=shapes, input_values=values,
            onnx_libraries=onnx_library or (),
            activation_substitution=activation_substitution, show=show,
        )  # fmt: skip
    written = [] if output is None else write_files(found, output, image_format)
    if as_json:
        files = [str(path) for path in written]
        typer.echo(json.dumps(found.as_dict() | {"files": files}))
        return
    typer.echo(
        "\n".join(summary_lines(found, file=str(written[0]) if written else "", every=every))
    )
    for path in written:
        typer.echo(f"written: {path}")
