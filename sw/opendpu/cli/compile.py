# SPDX-License-Identifier: Apache-2.0
"""``opendpu compile``."""

import dataclasses
import json
import pathlib
from typing import Annotated

import typer

from opendpu import api
from opendpu.calibration.preprocessing import Channels, Layout, Preprocessing
from opendpu.calibration.source import check_calibration
from opendpu.cli.app import (
    InputShapes,
    InputValues,
    JsonFlag,
    OnnxLibraries,
    Requantize,
    Signature,
    app,
    errors_in_one_line,
)
from opendpu.cli.image_options import (
    Crop,
    ImageChannels,
    ImageLayout,
    Mean,
    Resize,
    SampleLimit,
    Scale,
)
from opendpu.cli.input_values import input_values
from opendpu.cli.progress import progress
from opendpu.compiler.options import Options
from opendpu.compiler.passes import PASSES, chosen
from opendpu.frontend.formats import signed
from opendpu.frontend.input_values import check_no_values
from opendpu_arch import outputs
from opendpu_arch.errors import UnsupportedError


def _list_passes(wanted: bool) -> None:
    """Print the passes and end, if that is wanted."""
    if wanted:
        for one in PASSES:
            typer.echo(f"{one.name:<10} {one.takes} -> {one.makes}: {one.text}")
        raise typer.Exit


@app.command("compile")
@errors_in_one_line
def compile_model(
    context: typer.Context,
    file: Annotated[
        pathlib.Path,
        typer.Argument(metavar="MODEL|QUANTIZED.xmodel", show_default=False),
    ],
    target: Annotated[str, typer.Option(help="Name, fingerprint (0x...) or arch.json of the DPU.")],
    output: Annotated[pathlib.Path, typer.Option("--output", "-o", metavar="OUT.xmodel")],
    calibration: Annotated[
        pathlib.Path | None,
        typer.Option(
            "--calib",
            metavar="DATA.npz|DATA.npy|FOLDER",
            help="Samples by input name, along axis 0, or a folder of images; only for float "
            "models.",
        ),
    ] = None,
    samples: SampleLimit = None,
    mean: Mean = None,
    scale: Scale = None,
    resize: Resize = None,
    crop: Crop = None,
    layout: ImageLayout = Layout.AUTO,
    channels: ImageChannels = Channels.AUTO,
    activation_substitution: Annotated[
        str,
        typer.Option(
            metavar="none|hard",
            help="hard: sigmoid and swish (SiLU) become hard ones where the DPU then computes "
            "them; the report says what that costs.",
        ),
    ] = "none",
    options: Annotated[
        list[str] | None,
        typer.Option(
            "--options",
            "-e",
            metavar="OPTIONS",
            help="As the guide's: JSON, or key=value; input_shape, output_ops, plugins, prefetch, "
            "hd_opt, reserve_const_data, dump, dump_dir. May be given several times.",
        ),
    ] = None,
    input_shape: InputShapes = None,
    input_value: InputValues = None,
    signature: Signature = None,
    onnx_library: OnnxLibraries = None,
    requantize: Requantize = False,
    dump_after: Annotated[
        str | None,
        typer.Option(metavar="PASS[,PASS]|all", help="Write what these passes make."),
    ] = None,
    dump_dir: Annotated[
        pathlib.Path | None, typer.Option(metavar="DIR", help="Where; by default dump.")
    ] = None,
    list_passes: Annotated[
        bool,
        typer.Option(
            "--list-passes", callback=_list_passes, is_eager=True, help="List the passes and end."
        ),
    ] = False,
    count: Annotated[
        bool, typer.Option(help="Count cycles with the cycle model, where it is installed.")
    ] = True,
    as_json: JsonFlag = False,
) -> None:
    """Quantize a model of any framework, or take a quantized one, and compile it for a DPU."""
    asked = Options.parse(options or ()).with_input_shapes(input_shape or ())
    values = input_values(input_value)
    if dump_after is not None:
        asked = dataclasses.replace(asked, dump=asked.dump | chosen(dump_after.split(",")))
    if dump_dir is not None:
        asked = dataclasses.replace(asked, dump_dir=str(dump_dir))
    preprocessing = Preprocessing.parse(
        mean=mean, scale=scale, resize=resize, crop=crop, layout=layout, channels=channels
    )
    chosen_target = api.find_target(target)
    outputs.check(output, inputs=(file,) if calibration is None else (file, calibration))
    file = signed(file, signature)
    with progress(f"compiling {file.name}") as show:
        if file.suffix == ".xmodel":
            if calibration is not None:
                raise UnsupportedError(f"--calib is for float models, but {file} is quantized")
            check_no_values(file, values)
            if requantize or onnx_library:
                raise UnsupportedError(
                    f"--requantize and --onnx-library are for other models, but {file} is of XIR"
                )
            check_calibration(None, preprocessing)
            if samples is not None:
                raise UnsupportedError(f"--samples is for float models, but {file} is quantized")
            report = api.compile_xmodel(
                file, target=chosen_target, output=output, options=asked, count=count, show=show
            )
        else:
            report = api.compile_onnx(
                file, calibration=calibration, target=chosen_target, output=output, options=asked,
                preprocessing=preprocessing, limit=samples, onnx_libraries=onnx_library or (),
                input_values=values, requantize=requantize, count=count, show=show,
                activation_substitution=activation_substitution,
            )  # fmt: skip
    text = json.dumps(report.as_dict()) if as_json else str(report)
    typer.echo(text, err=outputs.is_standard_output(output))
