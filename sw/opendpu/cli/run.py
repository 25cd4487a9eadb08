# SPDX-License-Identifier: Apache-2.0
"""``opendpu run``."""

import json
import time
from collections.abc import Iterable
from typing import Annotated, Any

import typer

from opendpu import api
from opendpu.calibration.preprocessing import Channels, Preprocessing
from opendpu.cli import run_image
from opendpu.cli.app import File, app, errors_in_one_line
from opendpu.cli.image_options import Crop, ImageChannels, Mean, Resize, Scale
from opendpu.cli.input_values import input_shapes, input_values
from opendpu.cli.run_options import (
    ArrayLayout,
    Device,
    FixedValues,
    Floats,
    Image,
    ImageCalibration,
    InputFile,
    Labels,
    Memory,
    OpenShapes,
    OutputFile,
    SubgraphIndex,
    TargetOfDevice,
    Top,
)
from opendpu.runtime import feeds, npz
from opendpu_arch import outputs
from opendpu_arch.errors import UnsupportedError


@app.command()
@errors_in_one_line
def run(
    context: typer.Context,
    file: File,
    input_file: InputFile = None,
    output_file: OutputFile = None,
    device: Device = None,
    memory: Memory = None,
    target: TargetOfDevice = None,
    subgraph: SubgraphIndex = None,
    layout: ArrayLayout = feeds.Layout.AUTO,
    floats: Floats = False,
    image: Image = None,
    mean: Mean = None,
    scale: Scale = None,
    resize: Resize = None,
    crop: Crop = None,
    channels: ImageChannels = Channels.AUTO,
    labels: Labels = None,
    top: Top = 5,
    calibration: ImageCalibration = None,
    input_shape: OpenShapes = None,
    input_value: FixedValues = None,
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
            input_shapes=input_shapes(input_shape),
            input_values=input_values(input_value),
        )  # fmt: skip
        return
    if input_file is None or output_file is None:
        raise typer.BadParameter("give --input and --output, or --image")
    for option, asked in (("--input-shape", input_shape), ("--input-value", input_value)):
        if asked:
            raise UnsupportedError(f"{option} is for --image and a model that is not compiled")
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
