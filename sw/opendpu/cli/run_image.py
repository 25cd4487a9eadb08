# SPDX-License-Identifier: Apache-2.0
"""``opendpu run --image``: the answer of a model to a photograph."""

import dataclasses
import json
import pathlib
import time
from typing import Any

import numpy as np
import typer

from opendpu import api
from opendpu.cli.progress import progress
from opendpu.image_inference import Answer, infer_image
from opendpu.runtime import npz
from opendpu_arch import inputs, outputs
from opendpu_arch.errors import TensorError


def read_labels(path: pathlib.Path | None) -> list[str] | None:
    """Return the names of classes in a file, a line each; TensorError if it cannot be read."""
    if path is None:
        return None
    try:
        return inputs.read_text(path).splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise TensorError(f"{path} cannot be read as labels: {reason}") from error


def run_image(
    file: pathlib.Path,
    image: pathlib.Path,
    output: pathlib.Path | None,
    labels: list[str] | None,
    *,
    as_json: bool,
    **settings: Any,
) -> None:
    """Run a model on an image and print the answer; ``settings`` are those of ``infer_image``."""
    outputs.check_all((output,), inputs=(file, image))
    api.check_device(settings["device"])
    start = time.perf_counter()
    with progress(f"running {file.name}") as show:
        answer = infer_image(file, image, labels=labels, show=show, **settings)
    if output is not None:
        npz.write(output, answer.outputs)
    seconds = time.perf_counter() - start
    text = _json(file, image, answer, seconds) if as_json else _text(answer)
    typer.echo(text, err=output is not None and outputs.is_standard_output(output))


def _text(answer: Answer) -> str:
    lines = []
    for name, array in answer.outputs.items():
        if name in answer.rankings:
            lines.append(f"{name}:")
            lines += [
                f"  {entry.probability:7.2%}  {entry.label}" for entry in answer.rankings[name]
            ]
        elif array.size:
            lines.append(
                f"{name}: {list(array.shape)}, {np.min(array):g} to {np.max(array):g}, "
                f"mean {np.mean(array):g}"
            )
        else:
            lines.append(f"{name}: {list(array.shape)}")
    cycles = sum(part["cycles"] for part in answer.statistics.values())
    if cycles:
        lines.append(f"{cycles} cycles on the DPU")
    return "\n".join([*lines, *(f"note: {note}" for note in answer.notes)])


def _json(file: pathlib.Path, image: pathlib.Path, answer: Answer, seconds: float) -> str:
    found = {
        "file": str(file),
        "image": str(image),
        "outputs": {name: list(array.shape) for name, array in answer.outputs.items()},
        "rankings": {
            name: [dataclasses.asdict(entry) for entry in entries]
            for name, entries in answer.rankings.items()
        },
        "wall_seconds": seconds,
        "statistics": answer.statistics,
        "notes": list(answer.notes),
    }
    return json.dumps(found)
