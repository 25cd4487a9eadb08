# SPDX-License-Identifier: Apache-2.0
"""From a model's file to a quantized model's file, the way of ``opendpu quantize``."""

import dataclasses
import os
import pathlib
from collections.abc import Callable, Sequence

import onnx

from opendpu.calibration import Preprocessing, read_calibration
from opendpu.calibration.source import check_calibration
from opendpu.deploy_check import Checked, deploy_check
from opendpu.evaluation import LayerSensitivity, page
from opendpu.evaluation import sensitivity as measure_sensitivity
from opendpu.export.golden import BATCH, WEIGHTS, dump_activations, dump_weights, make_folder
from opendpu.export.reference import IntegerReference
from opendpu.frontend.binding import Sizes
from opendpu.frontend.input_values import Values, check_no_values
from opendpu.frontend.libraries import check as check_libraries
from opendpu.ir import FloatGraph, QuantizedGraph, from_xir
from opendpu.quantize import Quantized, Report, quantize_with_report
from opendpu.quantize.config import QuantizeConfig
from opendpu.quantize.progress import silent
from opendpu.quantize.samples import Calibration, Samples, calibration_samples
from opendpu.quantized_file import (
    check_integers,
    check_output,
    open_in_source,
    write_quantized,
)
from opendpu.requantization import load_for_quantizing, warn_needless
from opendpu.runtime.program import dpu_subgraphs
from opendpu_arch import outputs
from opendpu_arch.errors import GraphError, TensorError, UnsupportedError
from opendpu_arch.target import Target
from xir import Graph

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
    checks
        What devices and the file make of a sample; none where nobody asked.
    """

    graph: QuantizedGraph
    report: Report | None
    sensitivities: Sequence[LayerSensitivity] | None = None
    checks: Sequence[Checked] | None = None


def quantize_onnx(
    path: Path,
    *,
    calibration: Path | Calibration | None = None,
    output: Path,
    config: QuantizeConfig | None = None,
    preprocessing: Preprocessing | None = None,
    limit: int | None = None,
    input_shapes: Sizes | None = None,
    input_values: Values | None = None,
    onnx_libraries: Sequence[str | pathlib.Path] = (),
    requantize: bool = False,
    form: str = "native",
    exact: bool = True,
    report: Path | None = None,
    sensitivity: bool = False,
    check: Target | None = None,
    dump: Path | None = None,
    progress: Path | None = None,
    show: Callable[[str], None] = silent,
) -> QuantizedModel:
    """Quantize a model of any framework, so that it compiles for any target without data.

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
    input_shapes, input_values, onnx_libraries
        As of :func:`opendpu.frontend.load_model`.
    requantize
        Whether scales of a quantized file that are not the DPU's may be changed.
    form, exact
        As of :func:`opendpu.export.to_onnx`, for ``.onnx``.
    report
        Where an HTML page goes that says what it cost, and where.
    sensitivity
        Whether to measure which layers deserve more bits.
    check
        A DPU for which the quantized network, its program and its file are compared on the first
        sample.
    dump
        A folder for golden results (:mod:`opendpu.export.golden`) of the first sample.
    progress
        A file for what is finished: an interrupted run of the same goes on with it. It stays.
    show
        Told what is going on.

    Returns
    -------
    The quantized graph, the report, and what else was asked for.

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
    if check is not None and config.deployable():
        raise UnsupportedError(
            f"no DPU runs this, so that none can be checked (--deploy-check): "
            f"{'; '.join(config.deployable())}"
        )
    outputs.check_all((output, report, progress), inputs=[path])
    if dump is not None:
        check_integers(config)
        outputs.check_folder(dump)
    if calibration is None or isinstance(calibration, str | os.PathLike):
        check_calibration(calibration, preprocessing)
    show("reading")
    graph = _read(
        path, input_shapes, onnx_libraries, input_values=input_values, requantize=requantize,
        has_samples=calibration is not None, warn=True,
    )  # fmt: skip
    if isinstance(graph, Quantized):
        if calibration is not None:
            raise UnsupportedError(
                f"{os.fspath(path)} is quantized already: it needs no calibration data (--calib)"
            )
        if config != QuantizeConfig():
            raise UnsupportedError(
                f"{os.fspath(path)} is quantized already: settings of the quantizer "
                "(--method, --config, --target, …) would change nothing"
            )
        if progress is not None:
            raise UnsupportedError(
                f"{os.fspath(path)} is quantized already: there are no steps to keep (--progress)"
            )
        if report is not None or sensitivity or check is not None or dump is not None:
            raise UnsupportedError(
                f"{os.fspath(path)} is quantized already: there is neither a float model nor a "
                "sample to compare with (--report, --sensitivity, --deploy-check, --dump)"
            )
        found = QuantizedModel(graph.graph, graph.report)
        samples = None
    else:
        if calibration is None:
            raise TensorError(
                f"{os.fspath(path)} is a float model: give samples to calibrate it with (--calib)"
            )
        data = calibration
        if isinstance(data, str | os.PathLike):
            data = read_calibration(data, graph, preprocessing, limit=limit)
        samples = calibration_samples(graph, data)
        found = _quantized(
            graph, samples, config, sensitivity=sensitivity, journal=progress, show=show
        )
    show("writing")
    write_quantized(
        found.graph, output, form=form, exact=exact,
        open_in=open_in_source(path, output, found.graph, input_shapes),
    )  # fmt: skip
    if report is not None and found.report is not None:
        outputs.write(report, page(found.graph.name, found.report, found.sensitivities))
    if dump is not None and samples is not None:
        _dump(found.graph, samples, dump)
    if check is None or samples is None:
        return found
    exported = onnx.load(output) if pathlib.Path(output).suffix == ".onnx" else None
    checks = deploy_check(
        found.graph, samples.single(0), target=check, exported=exported, show=show
    )  # fmt: skip
    return dataclasses.replace(found, checks=checks)


def _dump(graph: QuantizedGraph, samples: Samples, path: Path) -> None:
    folder = make_folder(path)
    dump_weights(
        graph, make_folder(folder / WEIGHTS), names={"weights": "_kernel", "bias": "_bias"}
    )
    place = make_folder(folder / BATCH.format(0))
    dump_activations(IntegerReference(graph), samples.single(0), place)


def _quantized(
    graph: FloatGraph,
    samples: Samples,
    config: QuantizeConfig,
    *,
    sensitivity: bool,
    journal: Path | None,
    show: Callable[[str], None],
) -> QuantizedModel:
    made = quantize_with_report(graph, samples, config, show=show, journal=journal)
    found = None
    if sensitivity and made.reference is not None:
        found = measure_sensitivity(made.graph, made.reference, samples, show=show)
    return QuantizedModel(made.graph, made.report, found)


def read_model(
    path: Path,
    input_shapes: Sizes | None = None,
    onnx_libraries: Sequence[str | pathlib.Path] = (),
    *,
    input_values: Values | None = None,
    any_scale: bool = False,
) -> FloatGraph | QuantizedGraph:
    """Return the graph in a file, of a framework or ``.xmodel``; a quantized one where it is one.

    With ``any_scale``, scales that are not powers of two stay; else such a model is the float one
    that is to be quantized with samples, as of :func:`opendpu.requantization.load_for_quantizing`.

    Raises
    ------
    ModelFormatError
        The file cannot be read.
    GraphError
        An ``.xmodel`` that is compiled already.
    """
    found = _read(
        path, input_shapes, onnx_libraries, input_values=input_values, requantize=not any_scale,
        has_samples=True, any_scale=any_scale,
    )  # fmt: skip
    return found.graph if isinstance(found, Quantized) else found


def _read(
    path: Path,
    input_shapes: Sizes | None,
    onnx_libraries: Sequence[str | pathlib.Path],
    *,
    input_values: Values | None,
    requantize: bool,
    has_samples: bool,
    any_scale: bool = False,
    warn: bool = False,
) -> FloatGraph | Quantized:
    if pathlib.Path(path).suffix == ".xmodel":
        check_no_values(path, input_values)
        check_libraries(onnx_libraries, os.fspath(path))
        stored = Graph.deserialize(path)
        if dpu_subgraphs(stored):
            raise GraphError(
                f"{os.fspath(path)} is compiled already; a quantized model has no DPU subgraphs",
                code="XCOM_INVALID_GRAPH",
            )
        made = from_xir(stored)
        if warn and requantize:
            warn_needless(path, quantized=isinstance(made, QuantizedGraph))
        return Quantized(made, None) if isinstance(made, QuantizedGraph) else made
    return load_for_quantizing(
        path, input_shapes, onnx_libraries, input_values=input_values, requantize=requantize,
        has_samples=has_samples, any_scale=any_scale, warn=warn,
    )  # fmt: skip
