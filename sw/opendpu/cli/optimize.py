# SPDX-License-Identifier: Apache-2.0
"""``opendpu optimize``."""

import json
import pathlib
from typing import TYPE_CHECKING, Annotated, Any

import typer

from opendpu import api
from opendpu.cli.app import JsonFlag, app, errors_in_one_line
from opendpu.cli.progress import progress
from opendpu.quantize import quantize_with_report
from opendpu.quantize.config import QuantizeConfig
from opendpu.quantized_file import check_output, write_quantized
from opendpu_arch import outputs

if TYPE_CHECKING:
    from opendpu.optimize.flow import Optimized

CALIBRATION = 200
"""Samples that the quantizer sees at most."""


@app.command()
@errors_in_one_line
def optimize(
    context: typer.Context,
    model: Annotated[str, typer.Argument(metavar="MODEL.py:NET", show_default=False)],
    data: Annotated[
        pathlib.Path,
        typer.Option(
            metavar="DATA.npz",
            help="Samples x, as the network takes them, and labels y; or x_train, y_train, "
            "x_choice, y_choice, x_test, y_test.",
        ),
    ],
    target: Annotated[str, typer.Option(help="Name, fingerprint or arch.json of the DPU.")],
    ratio: Annotated[float, typer.Option(help="Part of the objective that goes, 0 to 1.")],
    output: Annotated[
        pathlib.Path,
        typer.Option(
            "--output", "-o", metavar="QUANTIZED.xmodel|.onnx", help="The network, quantized."
        ),
    ],
    objective: Annotated[
        str, typer.Option(metavar="cycles|macs|params", help="What there is to be less of.")
    ] = "cycles",
    weights: Annotated[
        pathlib.Path | None,
        typer.Option(metavar="STATE.pth", help="State to begin with; --epochs 0 keeps it."),
    ] = None,
    state: Annotated[
        pathlib.Path | None,
        typer.Option(metavar="SLIM.pth", help="Write the slim network's state."),
    ] = None,
    report: Annotated[
        pathlib.Path | None, typer.Option(metavar="FILE.html", help="Write a page to look at.")
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Cuts with training behind each.")] = 2,
    epochs: Annotated[int, typer.Option(min=0, help="Of training before the first cut.")] = 10,
    tune_epochs: Annotated[int, typer.Option(min=0, help="Of training after each cut.")] = 4,
    analysis_epochs: Annotated[
        int,
        typer.Option(min=0, help="Of training of each candidate of the analysis: slower, better."),
    ] = 0,
    candidates: Annotated[
        int,
        typer.Option(
            min=1,
            help="Choices of widths of one cost that are trained a little in each round, the "
            "better half longer, until one is left: slower, better.",
        ),
    ] = 1,
    candidate_epochs: Annotated[
        int, typer.Option(min=1, help="Of training of each candidate at first.")
    ] = 1,
    keep: Annotated[
        pathlib.Path | None,
        typer.Option(metavar="FOLDER", help="Keep scores here, and go on from those there are."),
    ] = None,
    rate: Annotated[float, typer.Option(help="Largest learning rate.")] = 5e-3,
    exclude: Annotated[
        list[str] | None,
        typer.Option(metavar="MODULE", help="Keeps its channels. May be given several times."),
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="Processes of the analysis.")] = 1,
    ray: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Let a Ray cluster do the analysis.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of what is random.")] = 0,
    json_wanted: JsonFlag = False,
) -> None:
    """Train a network of PyTorch, cut channels so that a DPU needs fewer cycles, quantize it."""
    from opendpu.optimize.flow import Settings
    from opendpu.optimize.flow import optimize as run
    from opendpu.optimize.labelled import read_labelled
    from opendpu.optimize.page import report as page
    from opendpu.optimize.user_model import load_module, save_state

    config = QuantizeConfig()
    given = [data, *([weights] if weights else [])]
    check_output(output, config, inputs=given)
    outputs.check_all((output, state, report), inputs=given)
    settings = Settings(
        ratio=ratio, objective=objective, target=api.find_target(target), rounds=rounds,
        epochs=epochs, tune_epochs=tune_epochs, analysis_epochs=analysis_epochs,
        candidates=candidates, candidate_epochs=candidate_epochs, folder=keep, rate=rate,
        workers=workers, ray=ray, seed=seed, excludes=tuple(exclude or ()),
    )  # fmt: skip
    with progress(f"optimizing {model}") as show:
        network = load_module(model, weights, seed)
        labelled = read_labelled(data, seed)
        found = run(network, labelled, settings, show)
        show("quantizing")
        samples = labelled.train[0][:CALIBRATION]
        _quantized(found, samples, config, output)
    if state is not None:
        save_state(found.network, state)
    if report is not None:
        outputs.write(report, page(model.rpartition(":")[2], found))
    text = json.dumps(_as_json(found)) if json_wanted else _summary(found, output)
    typer.echo(text, err=outputs.is_standard_output(output))


def _quantized(
    found: "Optimized", samples: Any, config: QuantizeConfig, path: pathlib.Path
) -> None:
    from opendpu.frontend.pytorch import load_torch

    graph = load_torch(found.network, samples[:1])
    (source,) = (node.name for node in graph if node.kind == "data")
    quantized = quantize_with_report(graph, {source: samples.numpy()}, config)
    write_quantized(quantized.graph, path)


def _summary(found: "Optimized", output: pathlib.Path) -> str:
    from opendpu.optimize.page import shown_score

    lines = [
        f"{step.name}: {shown_score(found, step.score)}, {step.macs:,} MACs, "
        f"{step.cycles:,} cycles ({step.utilization:.1%} of the array)"
        for step in found.steps
    ]
    return "\n".join((*lines, f"quantized: {output}"))


def _as_json(found: "Optimized") -> dict[str, Any]:
    import dataclasses

    return {
        "target": found.settings.target.name,
        "objective": found.settings.objective,
        "steps": [dataclasses.asdict(step) for step in found.steps],
        "channels": {name: list(sizes) for name, sizes in found.widths.items()},
        "kept": found.kept,
        "candidates": {
            name: {"taken": known.best, "widths": known.widths, "scores": known.scores}
            for name, known in found.tried.items()
        },
        "rounding": dataclasses.asdict(found.rounding),
    }
