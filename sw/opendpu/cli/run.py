# SPDX-License-Identifier: Apache-2.0
"""``opendpu run``."""

import json
import pathlib
import time
from collections.abc import Iterable
from typing import Annotated, Any

import typer

from opendpu import api
from opendpu.calibration.preprocessing import Channels, Preprocessing
from opendpu.cli import run_image
from opendpu.cli.app import File, app, errors_in_one_line
from opendpu.cli.image_options import IMAGES, Crop, ImageChannels, Mean, Resize, Scale
from opendpu.compiler.options import Options
from opendpu.runtime import feeds, npz
from opendpu_arch import outputs
from opendpu_arch.errors import UnsupportedError


@app.command()
@errors_in_one_line
def run(
    context: typer.Context,
    file: File,
    input_file: Annotated[
        pathlib.Path | None,
        typer.Option(
            "--input",
            "-i",
            metavar="IN.npz|IN.npy",
            help="Inputs by tensor name, or the only input; a leading extra axis is a batch of "
            "jobs. Floats are quantized.",
        ),
    ] = None,
    output_file: Annotated[
        pathlib.Path | None,
        typer.Option("--output", "-o", metavar="OUT.npz", help="Where outputs go, by tensor name."),
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="ref, iss, rtl, cycle, board, litex; else $OPENDPU_DEVICE, else iss.")
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option(help="kv260, ideal, stall:<seed>; else $OPENDPU_MEMORY, else kv260."),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(help="DPU of the device; by default the one the model was compiled for."),
    ] = None,
    subgraph: Annotated[
        int | None,
        typer.Option(
            help="Run only this DPU subgraph, counted from 0; by default the names of "
            "the inputs decide between the whole graph and a DPU subgraph."
        ),
    ] = None,
    layout: Annotated[
        feeds.Layout,
        typer.Option(
            case_sensitive=False,
            help="Axes of images: nhwc as the model has them; nchw as ONNX has them, outputs too; "
            "auto takes inputs as they fit and gives nhwc.",
        ),
    ] = feeds.Layout.AUTO,
    floats: Annotated[
        bool, typer.Option("--float", help="Give fixed-point outputs as float32.")
    ] = False,
    image: Annotated[
        pathlib.Path | None,
        typer.Option(
            rich_help_panel=IMAGES,
            help="Run on a photograph and print the answer; the model may be ONNX then, and is "
            "quantized and compiled first.",
        ),
    ] = None,
    mean: Mean = None,
    scale: Scale = None,
    resize: Resize = None,
    crop: Crop = None,
    channels: ImageChannels = Channels.AUTO,
    labels: Annotated[
        pathlib.Path | None,
        typer.Option(
            metavar="FILE.txt", rich_help_panel=IMAGES, help="Names of classes, a line each."
        ),
    ] = None,
    top: Annotated[
        int, typer.Option(min=1, rich_help_panel=IMAGES, help="Classes that are printed.")
    ] = 5,
    calibration: Annotated[
        pathlib.Path | None,
        typer.Option(
            "--calib",
            metavar="DATA.npz|FOLDER",
            rich_help_panel=IMAGES,
            help="Samples for a float model; without them the image itself.",
        ),
    ] = None,
    input_shape: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=1,3,224,224",
            rich_help_panel=IMAGES,
            help="Shape that an ONNX model leaves open.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print statistics as JSON.")] = False,
) -> None:
    """Run a model: a compiled one on arrays, or any on a photograph (--image)."""
    if image is not None:
        if input_file is not None or subgraph is not None:
            raise UnsupportedError("--image is given, so --input and --subgraph cannot be")
        run_image.run_image(
            file, image, output_file, run_image.read_labels(labels), as_json=as_json, top=top,
            preprocessing=Preprocessing.parse(
                mean=mean, scale=scale, resize=resize, crop=crop, channels=channels
            ),
            calibration=calibration, device=device, memory=memory,
            target=api.find_target(target) if target else None,
            input_shapes=Options().with_input_shapes(input_shape or ()).input_shape,
        )  # fmt: skip
        return
    if input_file is None or output_file is None:
        raise typer.BadParameter("give --input and --output, or --image")
    outputs.check(output_file, inputs=(file, input_file))
    api.check_device(device)
    given = feeds.read(input_file)
    graph = api.load(file)
    chosen = subgraph
    if subgraph is None and feeds.ONLY_INPUT not in given:
        chosen = api.subgraph_of_inputs(graph, given)
    start = time.perf_counter()
    with api.create_runner(
        graph,
        subgraph=chosen,
        device=device,
        memory=memory,
        target=api.find_target(target) if target else None,
    ) as runner:
        arrays = feeds.prepared(given, runner.get_input_names(), layout)
        results, statistics = api.run_batch(runner, arrays, floats=floats)
    seconds = time.perf_counter() - start
    results = feeds.returned(results, layout)
    npz.write(output_file, results)
    report = {
        "file": str(file),
        "jobs": len(statistics),
        "wall_seconds": seconds,
        "total": _total(part for job in statistics for part in job.values()),
        "outputs": {name: list(array.shape) for name, array in results.items()},
        "statistics": statistics,
    }
    text = json.dumps(report) if as_json else _summary(report)
    typer.echo(text, err=outputs.is_standard_output(output_file))


def _total(parts: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Add up the figures of DPU subgraphs and jobs."""
    total: dict[str, Any] = dict.fromkeys(
        ("instructions", "cycles", "bytes_read", "bytes_written", "wall_seconds"), 0
    )
    busy: dict[str, int] = {}
    for part in parts:
        for key in total:
            total[key] += part[key]
        for name, cycles in part["busy_cycles"].items():
            busy[name] = busy.get(name, 0) + cycles
    return {**total, "busy_cycles": busy}


def _summary(report: dict[str, Any]) -> str:
    lines = [f"{report['jobs']} job(s) in {report['wall_seconds']:.3f} s"]
    for name, job in (report["statistics"][0] if report["statistics"] else {}).items():
        cycles = f", {job['cycles']} cycles" if job["cycles"] else ""
        lines.append(
            f"{name}: {job['device']}, {job['instructions']} instructions{cycles}, "
            f"{job['bytes_read']} bytes read, {job['bytes_written']} written (first job)"
        )
    lines += [f"{name}: {shape}" for name, shape in report["outputs"].items()]
    return "\n".join(lines)
