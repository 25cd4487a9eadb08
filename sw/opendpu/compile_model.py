# SPDX-License-Identifier: Apache-2.0
"""From a model's file to a compiled model's file, the way of ``opendpu compile``."""

import dataclasses
import os
import pathlib
from collections.abc import Callable, Sequence

from opendpu.calibration import Preprocessing, read_calibration
from opendpu.calibration.source import check_calibration
from opendpu.compiler.dump import Dumper
from opendpu.compiler.options import Options
from opendpu.compiler.pipeline import Compiled, compile_with_report
from opendpu.compiler.report import Report
from opendpu.frontend.formats import format_of
from opendpu.frontend.input_values import Values
from opendpu.frontend.requantizing import left_quantizers
from opendpu.ir import NOTES, FloatGraph, QuantizedGraph
from opendpu.profile import COUNTER, profile
from opendpu.quantize import Quantized, check_substitution, quantize_with_report
from opendpu.quantize.progress import silent
from opendpu.quantize.samples import Calibration
from opendpu.requantization import load_for_quantizing
from opendpu.runtime.devices import DEFAULT_MEMORY, known_devices
from opendpu.runtime.program import dpu_subgraphs
from opendpu.targets import find_target
from opendpu_arch import outputs
from opendpu_arch.errors import GraphError, TensorError, ToolError, UnsupportedError
from opendpu_arch.extensions import Extension
from opendpu_arch.target import Target
from xir import Graph


def compile_onnx(
    path: str | os.PathLike[str],
    *,
    calibration: str | os.PathLike[str] | Calibration | None = None,
    target: Target | str,
    output: str | os.PathLike[str],
    preprocessing: Preprocessing | None = None,
    limit: int | None = None,
    method: str = "minmse",
    activation_substitution: str = "none",
    options: Options | None = None,
    input_values: Values | None = None,
    onnx_libraries: Sequence[str | pathlib.Path] = (),
    requantize: bool = False,
    count: bool = False,
    show: Callable[[str], None] = silent,
) -> Report:
    """Quantize a model of any framework, compile it, and write the ``.xmodel`` file.

    ``calibration`` holds samples by input name, batch in front, as the model takes them, or is a
    file or folder as of :func:`opendpu.quantize_model.quantize_onnx`, of which ``limit`` are taken
    at most, images after ``preprocessing``; 100 to 1000 are enough. A model that is quantized
    already needs and takes none, unless its scales are not the DPU's and ``requantize`` allows
    others, see :mod:`opendpu.requantization`. ``onnx_libraries`` are shared libraries with
    operators of other domains, for onnxruntime; dimensions that the model leaves open come from
    ``options.input_shape``, inputs that always have one value are ``input_values``. ``show`` is
    told what is going on. The file appears when it is complete, or not at all.

    Raises
    ------
    ModelFormatError
        The model cannot be read.
    UnsupportedError
        The model has operators that neither we nor onnxruntime compute, or open dimensions: all of
        them, with the reason.
    TensorError
        The calibration data does not fit the model, or is missing.
    OutputError
        The output cannot be written; known before quantizing.
    """
    options = options or Options()
    check_substitution(activation_substitution)
    chosen = _prepared(path, target, output, options)
    if calibration is None or isinstance(calibration, str | os.PathLike):
        check_calibration(calibration, preprocessing)
    show("reading")
    graph = load_for_quantizing(
        path, options.input_shape, onnx_libraries, input_values=input_values, requantize=requantize,
        has_samples=calibration is not None, any_scale=Extension.SCALED in chosen.extensions,
        warn=True,
    )  # fmt: skip
    options = dataclasses.replace(options, input_shape={})
    show("quantizing")
    if isinstance(graph, Quantized):
        if calibration is not None:
            raise UnsupportedError(
                f"{os.fspath(path)} is quantized already: it needs no calibration data (--calib)"
            )
        found = graph
    elif calibration is None:
        _check_float(graph, path)
        raise TensorError(
            f"{os.fspath(path)} is a float model: give samples to calibrate it with "
            "(--calib of opendpu compile)"
        )
    else:
        if isinstance(calibration, str | os.PathLike):
            calibration = read_calibration(calibration, graph, preprocessing, limit=limit)
        found = quantize_with_report(
            graph, calibration, method=method, activation_substitution=activation_substitution,
            target=chosen, show=show,
        )  # fmt: skip
    report = _compiled(found.graph, chosen, output, options, count=count, show=show)
    if found.report is None:
        notes = found.graph.attrs.get(NOTES, ())
        return dataclasses.replace(report, remarks=tuple(f"note: {text}" for text in notes))
    return dataclasses.replace(
        report, quantization=found.report.as_json(), remarks=tuple(found.report.lines())
    )


def compile_xmodel(
    path: str | os.PathLike[str],
    *,
    target: Target | str,
    output: str | os.PathLike[str],
    options: Options | None = None,
    count: bool = False,
    show: Callable[[str], None] = silent,
) -> Report:
    """Compile a quantized ``.xmodel``, ours or AMD's quantizers', and write the compiled one.

    Raises
    ------
    ModelFormatError
        The file cannot be read.
    GraphError
        It is compiled already.
    OutputError
        The output cannot be written; known before compiling.
    """
    options = options or Options()
    chosen = _prepared(path, target, output, options)
    show("reading")
    graph = Graph.deserialize(path)
    if dpu_subgraphs(graph):
        raise GraphError(
            f"{os.fspath(path)} is compiled already; a quantized model has no DPU subgraphs",
            code="XCOM_INVALID_GRAPH",
        )
    return _compiled(graph, chosen, output, options, count=count, show=show)


def compile_graph(
    quantized: QuantizedGraph | Graph,
    *,
    target: Target | str,
    options: Options | None = None,
    count: bool = False,
    show: Callable[[str], None] = silent,
) -> Compiled:
    """Compile a quantized graph, from :func:`opendpu.quantize.quantize` or AMD's quantizers.

    Returns the compiled graph and the report: what runs where, and why not on the DPU. With
    ``count``, the report has the cycles that the cycle model finds, where that is installed.

    Raises
    ------
    UnsupportedError
        A ``fix`` op is not of 8 signed bits, or an option does not fit the graph.
    """
    chosen = find_target(target) if isinstance(target, str) else target
    options = options or Options()
    with Dumper(pathlib.Path(options.dump_dir), options.dump) as dump:

        def passed(name: str, value: object) -> None:
            show(f"compiling: {name} done")
            dump(name, value)

        compiled = compile_with_report(quantized, chosen, options=options, passed=passed)
    return _counted(compiled, chosen, show) if count else compiled


def _check_float(graph: FloatGraph, path: str | os.PathLike[str]) -> None:
    """Raise UnsupportedError if a model is quantized, but not as the target computes."""
    others = left_quantizers(graph)
    if others:
        raise UnsupportedError(
            f"{os.fspath(path)} is quantized with scales that the target does not compute with, "
            f"in {len(others)} operators; the first, {others[0].origin.op_type} "
            f"{others[0].name!r}: {others[0].reason}"
        )


def _prepared(
    path: str | os.PathLike[str],
    target: Target | str,
    output: str | os.PathLike[str],
    options: Options,
) -> Target:
    """Find out, before long work, what would make it be in vain; return the target."""
    format_of(os.fspath(path))
    outputs.check(output, inputs=[path])
    if options.dump:
        outputs.check_folder(options.dump_dir)
    return find_target(target) if isinstance(target, str) else target


def _compiled(
    quantized: QuantizedGraph | Graph,
    target: Target,
    output: str | os.PathLike[str],
    options: Options,
    *,
    count: bool,
    show: Callable[[str], None],
) -> Report:
    """Compile and write, then count: nothing that goes wrong there can lose the file."""
    compiled = compile_graph(quantized, target=target, options=options, show=show)
    compiled.graph.serialize(output)
    return (_counted(compiled, target, show) if count else compiled).report


def _counted(compiled: Compiled, target: Target, show: Callable[[str], None]) -> Compiled:
    """Let the cycle model count the cycles, where it is installed and can be built."""
    if not dpu_subgraphs(compiled.graph) or COUNTER not in known_devices():
        return compiled
    try:
        found = profile(
            compiled.graph, device=COUNTER, memory=DEFAULT_MEMORY, target=target, show=show
        )
    except (ToolError, UnsupportedError):
        return compiled
    cycles = [run.statistics.cycles for run in found.runs]
    report = compiled.report.with_cycles(cycles, found.memory, target.macs_per_cycle)
    return dataclasses.replace(compiled, report=report)
