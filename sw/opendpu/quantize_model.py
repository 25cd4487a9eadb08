# SPDX-License-Identifier: Apache-2.0
"""From a model's file to a quantized model's file, the way of ``opendpu quantize``."""

import dataclasses
import os
import pathlib
from collections.abc import Callable, Sequence

from opendpu.calibration import Preprocessing, read_calibration
from opendpu.calibration.source import check_calibration
from opendpu.evaluation import LayerSensitivity, page
from opendpu.evaluation import sensitivity as measure_sensitivity
from opendpu.export import to_onnx
from opendpu.export.files import write_onnx
from opendpu.export.forms import form_of
from opendpu.frontend import load_onnx
from opendpu.frontend.binding import Sizes
from opendpu.ir import FloatGraph, QuantizedGraph, from_xir, to_xir
from opendpu.quantize import Report, complete, is_quantized, quantize_with_report
from opendpu.quantize.config import QuantizeConfig
from opendpu.quantize.samples import Calibration, Samples, calibration_samples
from opendpu.runtime.program import dpu_subgraphs
from opendpu_arch import outputs
from opendpu_arch.errors import GraphError, OutputError, TensorError, UnsupportedError
from xir import Graph

SUFFIXES = (".xmodel", ".onnx")
"""What a quantized model may be written as."""

Path = str | os.PathLike[str]


@dataclasses.dataclass(frozen=True)
class QuantizedModel:
    """A quantized model that was written.

    Parameters
    ----------
    graph
        What is in the file.
    report
        What the quantizer did; none for a model that came quantized.
    sensitivities
        The layers, those first that deserve more bits; none where nobody asked.
    """

    graph: QuantizedGraph
    report: Report | None
    sensitivities: Sequence[LayerSensitivity] | None = None


def _nowhere(text: str) -> None:
    """Show nothing of what is going on."""


def quantize_onnx(
    path: Path,
    *,
    calibration: Path | Calibration | None = None,
    output: Path,
    config: QuantizeConfig | None = None,
    preprocessing: Preprocessing | None = None,
    limit: int | None = None,
    input_shapes: Sizes | None = None,
    onnx_libraries: Sequence[str | pathlib.Path] = (),
    form: str = "native",
    exact: bool = True,
    report: Path | None = None,
    sensitivity: bool = False,
    show: Callable[[str], None] = _nowhere,
) -> QuantizedModel:
    """Quantize an ONNX model and write it, so that it compiles for any target without data.

    A model that is quantized already, ONNX or ``.xmodel``, is only written in the other form.

    Parameters
    ----------
    path
        The model.
    calibration
        Samples: an ``.npz`` or ``.npy`` file, a folder of images, arrays by input name with the
        batch in front, or an iterable of such batches.
    output
        ``.xmodel``, or ``.onnx`` with quantizing operators. It appears when it is complete, or not
        at all.
    config
        What the quantizer does.
    preprocessing
        What is done to the images of a folder.
    limit
        How many samples of a file or folder are taken at most.
    input_shapes, onnx_libraries
        As of :func:`opendpu.frontend.load_onnx`.
    form, exact
        As of :func:`opendpu.export.to_onnx`, for ``.onnx``.
    report
        Where an HTML page goes that says what it cost, and where.
    sensitivity
        Whether to measure which layers deserve more bits.
    show
        Told what is going on.

    Returns
    -------
    The quantized graph, the report, and the sensitivities.

    Raises
    ------
    ModelFormatError, GraphError
        The model cannot be read, or is compiled already.
    TensorError
        Calibration data that is missing or does not fit.
    UnsupportedError
        A configuration that the output cannot hold; known before quantizing.
    OutputError
        The output cannot be written; known before quantizing.
    """
    config = config or QuantizeConfig()
    check_output(output, config, inputs=[path], form=form)
    outputs.check_all((output, report), inputs=[path])
    if isinstance(calibration, str | os.PathLike):
        check_calibration(calibration, preprocessing)
    show("reading")
    graph = read_model(path, input_shapes, onnx_libraries)
    if isinstance(graph, QuantizedGraph):
        if calibration is not None:
            raise UnsupportedError(
                f"{os.fspath(path)} is quantized already: it needs no calibration data (--calib)"
            )
        if report is not None or sensitivity:
            raise UnsupportedError(
                f"{os.fspath(path)} is quantized already: there is no float model to compare with "
                "(--report, --sensitivity)"
            )
        found = QuantizedModel(graph, None)
    else:
        if calibration is None:
            raise TensorError(
                f"{os.fspath(path)} is a float model: give samples to calibrate it with (--calib)"
            )
        data = calibration
        if isinstance(data, str | os.PathLike):
            data = read_calibration(data, graph, preprocessing, limit=limit)
        samples = calibration_samples(graph, data)
        found = _quantized(graph, samples, config, sensitivity=sensitivity, show=show)
    show("writing")
    write_quantized(found.graph, output, form=form, exact=exact)
    if report is not None and found.report is not None:
        outputs.write(report, page(graph.name, found.report, found.sensitivities))
    return found


def _quantized(
    graph: FloatGraph,
    samples: Samples,
    config: QuantizeConfig,
    *,
    sensitivity: bool,
    show: Callable[[str], None],
) -> QuantizedModel:
    made = quantize_with_report(graph, samples, config, show=show)
    found = None
    if sensitivity and made.reference is not None:
        found = measure_sensitivity(made.graph, made.reference, samples, show=show)
    return QuantizedModel(made.graph, made.report, found)


def read_model(
    path: Path,
    input_shapes: Sizes | None = None,
    onnx_libraries: Sequence[str | pathlib.Path] = (),
) -> FloatGraph | QuantizedGraph:
    """Return the graph in a file, ONNX or ``.xmodel``; a quantized one where it is quantized.

    Raises
    ------
    ModelFormatError
        The file cannot be read.
    GraphError
        An ``.xmodel`` that is compiled already.
    """
    if pathlib.Path(path).suffix == ".xmodel":
        stored = Graph.deserialize(path)
        if dpu_subgraphs(stored):
            raise GraphError(
                f"{os.fspath(path)} is compiled already; a quantized model has no DPU subgraphs",
                code="XCOM_INVALID_GRAPH",
            )
        return from_xir(stored)
    graph = load_onnx(pathlib.Path(path), input_shapes, libraries=onnx_libraries)
    return complete(graph) if is_quantized(graph) else graph


def check_output(
    path: Path, config: QuantizeConfig, *, inputs: Sequence[Path] = (), form: str = "native"
) -> None:
    """Check, before long work, that a quantized model can be written.

    Raises
    ------
    OutputError
        The file cannot be written, or its name does not say what it is to be.
    UnsupportedError
        XIR cannot hold what the configuration makes, or there is no such form.
    """
    suffix = pathlib.Path(path).suffix
    if suffix not in SUFFIXES:
        raise OutputError(
            f"{os.fspath(path)} ends in {suffix!r}, but a quantized model is "
            f"{' or '.join(SUFFIXES)}"
        )
    form_of(form)
    outputs.check(path, inputs=inputs)
    reasons = config.deployable()
    if suffix == ".xmodel" and reasons:
        raise UnsupportedError(
            f"{os.fspath(path)} is for a DPU, which cannot run this: {'; '.join(reasons)}; write "
            ".onnx to evaluate it"
        )


def write_quantized(
    graph: QuantizedGraph, path: Path, *, form: str = "native", exact: bool = True
) -> None:
    """Write a quantized graph as ``.xmodel`` or ``.onnx``, complete or not at all."""
    if pathlib.Path(path).suffix == ".xmodel":
        to_xir(graph).serialize(path)
    else:
        write_onnx(to_onnx(graph, form, exact=exact), path)
