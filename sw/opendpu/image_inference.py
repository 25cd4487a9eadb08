# SPDX-License-Identifier: Apache-2.0
"""From a model and a photograph to an answer: quantize and compile where needed, run, rank."""

import dataclasses
import os
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from opendpu import api
from opendpu.calibration.images import Folder
from opendpu.calibration.preprocessing import Preprocessing
from opendpu.calibration.source import read_calibration
from opendpu.compiler.options import Options
from opendpu.frontend.binding import Sizes
from opendpu.frontend.input_values import Values, check_no_values
from opendpu.ir import Array, FloatGraph, QuantizedGraph, TensorType
from opendpu.quantize import Quantized, quantize_with_report
from opendpu.quantize.progress import silent
from opendpu.requantization import load_for_quantizing
from opendpu.runtime import GraphRunner
from opendpu.runtime.devices import DEFAULT_TARGET
from opendpu.runtime.program import dpu_subgraphs
from opendpu_arch.errors import TensorError, UnsupportedError
from opendpu_arch.extensions import Extension
from opendpu_arch.target import Target
from xir import Graph

Path = str | os.PathLike[str]

SURE = 0.02
"""How far the sum of probabilities may be from one."""


@dataclasses.dataclass(frozen=True)
class Class:
    """One entry of a ranking."""

    index: int
    label: str
    probability: float


@dataclasses.dataclass(frozen=True)
class Answer:
    """What a model says of an image.

    Parameters
    ----------
    outputs
        By name, real numbers in the shape of the model's output.
    rankings
        Of the outputs that are one number a class, the likeliest classes.
    statistics
        What the job took, by subgraph.
    notes
        What the user should know: of the calibration, for example.
    """

    outputs: Mapping[str, Array]
    rankings: Mapping[str, Sequence[Class]]
    statistics: Mapping[str, Any]
    notes: Sequence[str]


def infer_image(
    path: Path,
    image: Path,
    *,
    preprocessing: Preprocessing | None = None,
    calibration: Path | None = None,
    labels: Sequence[str] | None = None,
    top: int = 5,
    target: Target | None = None,
    device: str | None = None,
    memory: str | None = None,
    input_shapes: Sizes | None = None,
    input_values: Values | None = None,
    show: Callable[[str], None] = silent,
) -> Answer:
    """Run a model on one image.

    Parameters
    ----------
    path
        A compiled or quantized ``.xmodel``; or an ONNX model or PyTorch program, which is quantized
        first.
    image
        A file that Pillow reads.
    preprocessing
        What the network's authors did to images.
    calibration
        Samples for a float model, as ``opendpu quantize --calib``; without them the image itself.
    labels
        Names of the classes, in order.
    top
        Length of a ranking.
    target
        The DPU; by default B4096 or what the model was compiled for.
    device, memory
        As of :func:`opendpu.api.create_runner`.
    input_shapes
        Dimensions that the model leaves open.
    input_values
        Inputs beside the image that always have one value, as of
        :func:`opendpu.frontend.load_model`.
    show
        Told what is going on.

    Raises
    ------
    TensorError
        The image cannot be read, the model takes no image, or there are fewer labels than classes.
    UnsupportedError
        ``calibration`` or ``input_shapes`` for an ``.xmodel``.
    """
    photo = pathlib.Path(image)
    if not photo.is_file():
        raise TensorError(f"{photo}: there is no such image")
    notes: list[str] = []
    graph = _compiled(
        path, photo, preprocessing, calibration, target, input_shapes, input_values, notes, show
    )
    show("running")
    with api.create_runner(graph, device=device, memory=memory, target=target) as runner:
        assert isinstance(runner, GraphRunner)
        source = Folder.of(photo, _inputs_of(runner), preprocessing)
        outputs, statistics = api.run_batch(runner, source.first(), floats=True)
    rankings = {
        name: rank(array, labels, top) for name, array in outputs.items() if _is_ranking(array)
    }
    return Answer(outputs, rankings, statistics[0], notes)


def rank(scores: Array, labels: Sequence[str] | None, top: int) -> list[Class]:
    """Return the likeliest classes; scores that are no probabilities go through softmax.

    Raises
    ------
    TensorError
        There are fewer labels than classes.
    """
    values = scores.ravel().astype(np.float64)
    if labels is not None and len(labels) < values.size:
        raise TensorError(
            f"there are {len(labels)} labels, but the model has {values.size} classes"
        )
    if values.min() < 0 or abs(values.sum() - 1) > SURE:
        values = np.exp(values - values.max())
        values /= values.sum()
    order = np.argsort(-values, kind="stable")[:top]
    names = [labels[index] if labels is not None else f"class {index}" for index in order]
    return [
        Class(int(index), name, float(values[index]))
        for index, name in zip(order, names, strict=True)
    ]


def _is_ranking(array: Array) -> bool:
    """Return whether an output is one number a class."""
    return 1 < array.size == max(array.shape) and array.dtype.kind == "f"


def _compiled(
    path: Path,
    photo: pathlib.Path,
    preprocessing: Preprocessing | None,
    calibration: Path | None,
    target: Target | None,
    input_shapes: Sizes | None,
    input_values: Values | None,
    notes: list[str],
    show: Callable[[str], None],
) -> Graph:
    """Return a model compiled for a DPU."""
    chosen = target or api.find_target(DEFAULT_TARGET)
    model: Graph | QuantizedGraph
    if pathlib.Path(path).suffix == ".xmodel":
        check_no_values(path, input_values)
        for option, given in (("--calib", calibration), ("--input-shape", input_shapes)):
            if given:
                raise UnsupportedError(f"{option} is for float models, but {path} is none")
        model = api.load(path)
        if dpu_subgraphs(model):
            return model
    else:
        show("reading")
        own = Extension.SCALED in chosen.extensions
        graph = load_for_quantizing(
            path, input_shapes, input_values=input_values, requantize=not own,
            has_samples=calibration is not None, any_scale=own,
        )  # fmt: skip
        if isinstance(graph, Quantized):
            model = graph.graph
            found = graph.report.lines() if graph.report else ()
            notes += [line.removeprefix("note: ") for line in found]
        else:
            if calibration is None:
                notes.append(
                    "the float model was calibrated with this image alone; --calib with 100 or "
                    "more shows what it can do"
                )
            samples = read_calibration(calibration or photo, graph, preprocessing)
            show("quantizing")
            model = quantize_with_report(graph, samples, target=chosen, show=show).graph
    show("compiling")
    return api.compile_graph(model, target=chosen, options=Options()).graph


def _inputs_of(runner: GraphRunner) -> FloatGraph:
    """Return a graph with the inputs of a runner and nothing else."""
    graph = FloatGraph("model")
    for tensor in runner.get_input_tensors():
        graph.add(tensor.name, "data", TensorType(tuple(tensor.dims)))
    return graph
