# SPDX-License-Identifier: Apache-2.0
"""``opendpu evaluate``."""

import json
import pathlib
from typing import Annotated

import typer

from opendpu.calibration.preprocessing import Preprocessing
from opendpu.cli.app import (
    InputShapes,
    InputValues,
    JsonFlag,
    Signature,
    app,
    errors_in_one_line,
)
from opendpu.cli.input_values import input_shapes, input_values
from opendpu.cli.progress import progress
from opendpu.data_sets.evaluate import CALIBRATION, Evaluation, progress_path
from opendpu.data_sets.evaluate import evaluate as evaluate_data_set
from opendpu.data_sets.metrics import METRICS
from opendpu.frontend.formats import signed


@app.command()
@errors_in_one_line
def evaluate(
    context: typer.Context,
    model: Annotated[
        pathlib.Path, typer.Argument(metavar="MODEL.onnx|.pt2|.xmodel", show_default=False)
    ],
    data: Annotated[
        pathlib.Path,
        typer.Option(
            metavar="DIR|DATA.npz",
            help="A folder of images for each class, or inputs by name and 'labels'.",
        ),
    ],
    metric: Annotated[str, typer.Option(metavar="|".join(METRICS))] = "top1",
    function: Annotated[
        str,
        typer.Option(
            metavar="MODULE:FUNCTION",
            help="For metric custom: called with the outputs and labels of several samples, gives "
            "a number for each.",
        ),
    ] = "",
    target: Annotated[str, typer.Option(help="The DPU.")] = "DPUCZDX8G_ISA1_B4096",
    device: Annotated[str, typer.Option(help="What runs the quantized network.")] = "ref",
    rtl: Annotated[
        int, typer.Option("--rtl", min=0, metavar="N", help="Run N of the samples on --hardware.")
    ] = 0,
    hardware: Annotated[str, typer.Option(help="Device for --rtl.")] = "rtl",
    calibration: Annotated[
        int, typer.Option("--calib-samples", min=1, help="Samples that calibrate a float model.")
    ] = CALIBRATION,
    samples: Annotated[
        int | None, typer.Option(min=1, help="How many samples are taken at most.")
    ] = None,
    mean: Annotated[str | None, typer.Option(metavar="M[,M,M]", help="Of images.")] = None,
    scale: Annotated[str | None, typer.Option(metavar="S[,S,S]", help="Of images.")] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes; by default one a core.")
    ] = None,
    ray: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Let a Ray cluster do the work: auto, local, host."),
    ] = None,
    resume: Annotated[
        pathlib.Path | None,
        typer.Option(
            "--progress", metavar="FILE", help="What is counted; an interrupted run goes on."
        ),
    ] = None,
    input_shape: InputShapes = None,
    input_value: InputValues = None,
    signature: Signature = None,
    as_json: JsonFlag = False,
) -> None:
    """Say how good a network is on a data set: float, quantized, and a sample as hardware."""
    preprocessing = None
    if mean is not None or scale is not None:
        preprocessing = Preprocessing.parse(mean=mean, scale=scale)
    model = signed(model, signature)
    try:
        with progress("reading") as show:
            found = evaluate_data_set(
                model, data, metric=metric, function=function, target=target, device=device,
                hardware=hardware, hardware_samples=rtl, calibration=calibration, limit=samples,
                preprocessing=preprocessing,
                input_shapes=input_shapes(input_shape),
                input_values=input_values(input_value), progress=resume, workers=workers, ray=ray,
                show=show,
            )  # fmt: skip
    except KeyboardInterrupt:
        if (path := progress_path(model, resume)).exists():
            typer.echo(f"interrupted: the same command goes on with what {path} has", err=True)
        raise
    typer.echo(json.dumps(found.as_dict(), indent=2) if as_json else _text(found))


def _text(found: Evaluation) -> str:
    lines = [
        f"{name:<12} {found.metric} {value:.4f}  ({found.samples[name]} samples)"
        for name, value in found.figures.items()
    ]
    if found.resumed:
        lines.append(f"{found.resumed} samples were counted in an earlier run")
    return "\n".join(lines)
