# SPDX-License-Identifier: Apache-2.0
"""A network on a whole data set: float, quantized, and a sample of it on simulated hardware."""

import dataclasses
import hashlib
import os
import pathlib
import pickle
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from opendpu import api
from opendpu.calibration import Preprocessing
from opendpu.data_sets.metrics import Counts, metric_of
from opendpu.data_sets.pools import in_processes, on_ray
from opendpu.data_sets.progress_file import ProgressFile
from opendpu.data_sets.samples import DataSet, read_data
from opendpu.data_sets.work import FLOAT, Task, Variant
from opendpu.frontend.binding import Sizes
from opendpu.frontend.input_values import Values
from opendpu.ir import FloatGraph, QuantizedGraph, digest_of
from opendpu.quantize import complete, is_quantized, quantize_with_report
from opendpu.quantize_model import read_model
from opendpu.runtime.devices import check_device
from opendpu_arch.errors import UnsupportedError
from opendpu_arch.extensions import Extension
from opendpu_arch.target import Target

CALIBRATION = 100
"""Samples of the data set that a float model is calibrated with, if nobody says others."""
SIZE = 16
"""Samples of a task."""


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """What was found.

    Parameters
    ----------
    metric
        Name of the metric.
    figures
        Its value by variant: ``float``, ``quantized``, and a device.
    samples
        How many samples each is of.
    resumed
        Samples whose counts were there from an earlier run.
    seconds
        Time that this run took.
    """

    metric: str
    figures: Mapping[str, float]
    samples: Mapping[str, int]
    resumed: int
    seconds: float

    def as_dict(self) -> dict[str, Any]:
        """Return JSON-ready values."""
        return dataclasses.asdict(self)


def evaluate(
    model: str | os.PathLike[str],
    data: str | os.PathLike[str],
    *,
    metric: str = "top1",
    function: str = "",
    target: str = "DPUCZDX8G_ISA1_B4096",
    device: str = "ref",
    hardware: str = "rtl",
    hardware_samples: int = 0,
    calibration: int = CALIBRATION,
    method: str = "minmse",
    limit: int | None = None,
    preprocessing: Preprocessing | None = None,
    input_shapes: Sizes | None = None,
    input_values: Values | None = None,
    progress: str | os.PathLike[str] | None = None,
    workers: int | None = None,
    ray: str | None = None,
    show: Callable[[str], None] = lambda text: None,
) -> Evaluation:
    """Return what a network is worth on a data set.

    Parameters
    ----------
    model
        A float or quantized model of a framework, or a quantized ``.xmodel``. Scales that the
        target does not compute with are changed, with samples.
    data
        See :func:`opendpu.data_sets.samples.read_data`.
    metric, function
        See :func:`opendpu.data_sets.metrics.metric_of`.
    target
        The DPU that it is compiled for.
    device
        What runs the quantized network.
    hardware, hardware_samples
        What runs some of the samples, spread evenly, as the hardware would; none if 0.
    calibration, method
        How a float model is quantized: with so many of the samples, spread evenly.
    limit
        How many samples are taken at most.
    preprocessing
        What is done to images of a folder.
    input_shapes, input_values
        As of :func:`opendpu.frontend.load_model`.
    progress
        File for what is counted; an evaluation of the same that was interrupted goes on with it.
        It is removed at the end.
    workers
        Processes that do the work; as many as there are cores if not given.
    ray
        Address of a Ray cluster that does it instead.
    show
        Told what is going on.

    Raises
    ------
    ModelFormatError, UnsupportedError
        The model, metric or device cannot be used.
    TensorError
        The data set does not fit.
    OutputError
        The progress cannot be written.
    """
    start = time.perf_counter()
    chosen = metric_of(metric, function)
    for name in (device, hardware) if hardware_samples else (device,):
        check_device(name)
    show("reading")
    dpu = api.find_target(target)
    graph = read_model(
        model, input_shapes, input_values=input_values, any_scale=Extension.SCALED in dpu.extensions
    )
    samples = read_data(data, graph, chosen.label, preprocessing, limit)
    variants, tasks = _prepared(
        graph, samples, metric, function, dpu, device,
        hardware if hardware_samples else "", hardware_samples, calibration, method, show,
    )  # fmt: skip
    path = progress_path(model, progress)
    with ProgressFile(path, _digest(variants, samples)) as file:
        resumed = sum(task.stop - task.start for task in file.counts)
        waiting = file.waiting(tasks)
        done = (
            on_ray(waiting, variants, samples, ray) if ray
            else in_processes(waiting, variants, samples, workers)
        )  # fmt: skip
        whole = sum(task.stop - task.start for task in tasks)
        for task, counts in done:
            file.add(task, counts)
            ready = sum(one.stop - one.start for one in file.counts)
            show(f"evaluating: {ready} of {whole} samples ({variants[task.variant].name})")
        found = dict(file.counts)
    path.unlink(missing_ok=True)
    by_variant: dict[str, list[Counts]] = {variant.name: [] for variant in variants}
    for task in tasks:
        by_variant[variants[task.variant].name].append(found[task])
    return Evaluation(
        metric, {name: chosen.figure(counts) for name, counts in by_variant.items()},
        {name: sum(c["samples"] for c in counts) for name, counts in by_variant.items()},
        resumed, time.perf_counter() - start,
    )  # fmt: skip


def progress_path(
    model: str | os.PathLike[str], progress: str | os.PathLike[str] | None
) -> pathlib.Path:
    """Return the file for what is counted, where none was given: of the model's name."""
    return pathlib.Path(progress or f"{pathlib.Path(model).stem}.evaluation.jsonl")


def _prepared(
    graph: FloatGraph | QuantizedGraph, samples: DataSet, metric: str, function: str,
    target: Target, device: str, hardware: str, hardware_samples: int, calibration: int,
    method: str, show: Callable[[str], None],
) -> tuple[list[Variant], list[Task]]:  # fmt: skip
    """Return the networks to compare, and the work."""
    variants: list[Variant] = []
    if not isinstance(graph, QuantizedGraph) and not is_quantized(graph):
        variants.append(
            Variant(
                FLOAT, pickle.dumps(graph), digest_of(graph), "", tuple(graph.outputs), metric,
                function,
            )
        )  # fmt: skip
        show("quantizing")
        data = samples.inputs(_spread(len(samples), calibration))
        quantized = quantize_with_report(graph, data, method=method, target=target, show=show).graph
    else:
        quantized = graph if isinstance(graph, QuantizedGraph) else complete(graph)
    compiled = api.compile_graph(quantized, target=target, show=show).graph
    names = []
    for name in compiled.get_attr("return_ops"):
        op = compiled.get_op(name)
        assert op is not None, name
        names.append(op.get_output_tensor().name)
    with tempfile.TemporaryDirectory(prefix="opendpu-") as folder:
        path = pathlib.Path(folder, "model.xmodel")
        compiled.serialize(path)
        content = path.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    variants.append(Variant("quantized", content, digest, device, tuple(names), metric, function))
    tasks = [
        Task(number, start, min(start + SIZE, len(samples)))
        for number in range(len(variants))
        for start in range(0, len(samples), SIZE)
    ]
    if hardware:
        variants.append(
            Variant(hardware, content, digest, hardware, tuple(names), metric, function)
        )
        places = _spread(len(samples), hardware_samples)
        tasks += [Task(len(variants) - 1, int(place), int(place) + 1) for place in places]
    return variants, tasks


def _spread(count: int, wanted: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return numbers of samples, spread evenly."""
    if wanted < 1:
        raise UnsupportedError(f"{wanted} samples were asked for, but it must be at least 1")
    return np.unique(np.linspace(0, count - 1, min(wanted, count)).astype(np.int64))


def _digest(variants: Sequence[Variant], samples: DataSet) -> str:
    """Return a digest of everything that counts depend on."""
    found = hashlib.sha256()
    for variant in variants:
        found.update(
            f"{variant.name} {variant.device} {variant.metric} {variant.function} "
            f"{variant.digest}\n".encode()
        )
    for part in samples.identity():
        found.update(part)
    return found.hexdigest()
