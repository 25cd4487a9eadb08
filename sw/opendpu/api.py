# SPDX-License-Identifier: Apache-2.0
"""The user's way in: models from and to files, runners, targets.

>>> graph = opendpu.api.load("model.xmodel")
>>> with opendpu.api.create_runner(graph, device="iss") as runner:
...     outputs = runner.run({"input": image})
"""

import dataclasses
import os
import pathlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from opendpu.calibration import Preprocessing, read_calibration
from opendpu.calibration.source import check_calibration
from opendpu.compiler.dump import Dumper
from opendpu.compiler.options import Options
from opendpu.compiler.pipeline import Compiled, compile_with_report
from opendpu.compiler.report import Report
from opendpu.frontend import load_model
from opendpu.frontend.formats import Format, format_of
from opendpu.inspect import Inspection, inspect_compiled, inspect_graph
from opendpu.ir import QuantizedGraph, from_xir, to_xir
from opendpu.profile import Profile
from opendpu.profile import profile as run_profile
from opendpu.quantize import (
    Quantized,
    check_substitution,
    quantize_with_report,
)
from opendpu.quantize.progress import silent
from opendpu.quantize.samples import Calibration
from opendpu.quantize_model import quantize_onnx
from opendpu.requantization import load_for_inspection, load_for_quantizing
from opendpu.runtime import Device, GraphRunner, Runner
from opendpu.runtime.batch import run_batch
from opendpu.runtime.devices import (
    DEFAULT_MEMORY,
    DEFAULT_TARGET,
    TARGET_VARIABLE,
    check_device,
    known_devices,
)
from opendpu.runtime.program import Program, dpu_subgraphs
from opendpu_arch import outputs
from opendpu_arch.errors import (
    GraphError,
    TargetError,
    TensorError,
    ToolError,
    UnsupportedError,
)
from opendpu_arch.extensions import Extension
from opendpu_arch.target import Target
from xir import Graph

__all__ = [
    "Options",
    "check_device",
    "chosen_target",
    "compile_graph",
    "compile_onnx",
    "compile_xmodel",
    "create_runner",
    "dpu_subgraphs",
    "find_target",
    "inspect",
    "load",
    "load_any",
    "profile",
    "quantize_onnx",
    "run_batch",
    "subgraph_of_inputs",
]

CYCLE_DEVICE = "cycle"
"""Device that counts cycles fast."""


def load(path: str | os.PathLike[str]) -> Graph:
    """Return the graph in an ``.xmodel`` file.

    Raises
    ------
    ModelFormatError
        The file cannot be read, is truncated or corrupt, or is no ``.xmodel``.
    """
    return Graph.deserialize(path)


def load_any(
    path: str | os.PathLike[str], input_shapes: Mapping[str, Sequence[int]] | None = None
) -> Graph:
    """Return the graph in a model file of any framework, or in an ``.xmodel``.

    Quantized tensors have the scales and zero points that the file says, whatever they are.

    Raises
    ------
    ModelFormatError, UnsupportedError
        The file cannot be read, or not be converted.
    """
    if format_of(os.fspath(path)) is Format.XMODEL:
        return load(path)
    return to_xir(load_model(os.fspath(path), input_shapes or {}, any_scale=True))


def create_runner(
    model: Graph | str | os.PathLike[str],
    *,
    subgraph: int | None = None,
    device: Device | str | None = None,
    memory: str | None = None,
    target: Target | str | None = None,
    workers: int | None = None,
    **options: Any,
) -> GraphRunner | Runner:
    """Return a runner for a whole graph, or for the DPU subgraph with index ``subgraph``.

    ``device`` (``ref``, ``iss``, ``rtl``, ``cycle``) and ``memory`` (``kv260``, ``ideal``,
    ``stall:<seed>``) default to the environment's ``OPENDPU_DEVICE`` and ``OPENDPU_MEMORY``;
    ``target`` to the DPU the model was compiled for. ``workers`` bounds the jobs that run at a
    time.

    Raises
    ------
    GraphError
        There is no such subgraph.
    UnsupportedError
        The device is unknown, or the CPU cannot compute an op of a whole graph.
    FingerprintError
        The model was compiled for another DPU than ``target``.
    """
    graph = model if isinstance(model, Graph) else load(model)
    settings: dict[str, Any] = {
        "device": device,
        "memory": memory,
        "target": target,
        "workers": workers,
        **options,
    }
    if subgraph is None:
        return GraphRunner(graph, **settings)
    found = dpu_subgraphs(graph)
    if not 0 <= subgraph < len(found):
        raise GraphError(
            f"DPU subgraph {subgraph} was asked for, but graph {graph.get_name()!r} has "
            f"{len(found)}: {', '.join(s.get_name() for s in found) or 'none'}",
            code="VART_OUT_OF_RANGE",
        )
    return Runner(found[subgraph], **settings)


def subgraph_of_inputs(graph: Graph, names: Iterable[str]) -> int | None:
    """Return the index of the DPU subgraph whose inputs have these names.

    Nothing means the whole graph: because its own inputs have these names, or because no
    subgraph's have.
    """
    given = set(names)
    sources = [op for op in graph.get_ops() if op.get_type() in ("data", "data-fix")]
    if given == {op.get_output_tensor().name for op in sources}:
        return None
    for index, subgraph in enumerate(dpu_subgraphs(graph)):
        ports = Program.from_subgraph(subgraph).inputs
        own = [{port.name, *port.aliases} for port in ports]
        if len(own) == len(given) and all(given & accepted for accepted in own):
            return index
    return None


def find_target(text: str) -> Target:
    """Return the target that ``text`` says: a name, a fingerprint, or an ``arch.json`` file.

    Raises
    ------
    TargetError
        It is none of these.
    """
    if text.endswith(".json") or pathlib.Path(text).is_file():
        return Target.from_arch_json(text)
    return Target.from_name(text)


def chosen_target(text: str | None = None) -> Target:
    """Return the target that is asked for, or ``XLNX_TARGET_NAME``'s, or that of most boards.

    Raises
    ------
    TargetError
        There is no such target.
    """
    return find_target(text or os.environ.get(TARGET_VARIABLE) or DEFAULT_TARGET)


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
    ``options.input_shape``. ``show`` is told what is going on. The file appears when it is
    complete, or not at all.

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
        path, options.input_shape, onnx_libraries, requantize=requantize,
        has_samples=calibration is not None, any_scale=Extension.SCALED in chosen.extensions,
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
        raise TensorError(
            f"{os.fspath(path)} is a float model: give samples to calibrate it with (--calib)"
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
        return report
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
    graph = load(path)
    if dpu_subgraphs(graph):
        raise GraphError(
            f"{os.fspath(path)} is compiled already; a quantized model has no DPU subgraphs",
            code="XCOM_INVALID_GRAPH",
        )
    return _compiled(graph, chosen, output, options, count=count, show=show)


def inspect(
    path: str | os.PathLike[str],
    *,
    target: Target | str | None = None,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    activation_substitution: str = "none",
    onnx_libraries: Sequence[str | pathlib.Path] = (),
    show: Callable[[str], None] = silent,
) -> Inspection:
    """Say which operator of a model goes where on a target, and why; no data is needed.

    ``path`` is a model of any framework or an ``.xmodel``: float, quantized or compiled; of a
    compiled one the target is known.

    Raises
    ------
    ModelFormatError
        The model cannot be read.
    TargetError
        A target is needed, or is not the one that the file was compiled for.
    UnsupportedError
        As for :func:`compile_onnx`.
    """
    chosen = find_target(target) if isinstance(target, str) else target
    requantized = False
    show("reading")
    if format_of(os.fspath(path)) is Format.XMODEL:
        loaded = load(path)
        if dpu_subgraphs(loaded):
            return inspect_compiled(loaded, _compiled_for(loaded, chosen, path))
        graph = from_xir(loaded)
    else:
        scaled = chosen is not None and Extension.SCALED in chosen.extensions
        graph, requantized = load_for_inspection(
            path, input_shapes, onnx_libraries, any_scale=scaled
        )
    if chosen is None:
        raise TargetError(
            f"{os.fspath(path)} is not compiled: say for which target (--target)",
            code="XCOM_TARGET_REQUIRED",
        )
    show("inspecting")
    found = inspect_graph(graph, chosen, activation_substitution=activation_substitution)
    return dataclasses.replace(found, requantized=requantized)


def _compiled_for(graph: Graph, wanted: Target | None, path: str | os.PathLike[str]) -> Target:
    """Return the target of a compiled graph; TargetError if it is not the one that is wanted."""
    fingerprint = Program.from_subgraph(dpu_subgraphs(graph)[0]).fingerprint
    if not fingerprint:
        if wanted is None:
            raise TargetError(
                f"{os.fspath(path)} does not say its target: give it (--target)",
                code="XCOM_TARGET_REQUIRED",
            )
        return wanted
    found = Target.from_fingerprint(fingerprint)
    if wanted is not None and not wanted.runs(found):
        raise TargetError(
            f"{os.fspath(path)} was compiled for {found.name}, but {wanted.name} was asked for",
            code="VART_DEVICE_MISMATCH",
        )
    return found


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


def _counted(compiled: Compiled, target: Target, show: Callable[[str], None]) -> Compiled:
    """Let the cycle model count the cycles, where it is installed and can be built."""
    if not dpu_subgraphs(compiled.graph) or CYCLE_DEVICE not in known_devices():
        return compiled
    try:
        found = run_profile(
            compiled.graph, device=CYCLE_DEVICE, memory=DEFAULT_MEMORY, target=target, show=show
        )
    except (ToolError, UnsupportedError):
        return compiled
    cycles = [run.statistics.cycles for run in found.runs]
    report = compiled.report.with_cycles(cycles, found.memory, target.macs_per_cycle)
    return dataclasses.replace(compiled, report=report)


def profile(
    model: Graph | str | os.PathLike[str],
    *,
    device: str | None = None,
    memory: str | None = None,
    clock_mhz: float = 300,
    show: Callable[[str], None] = silent,
) -> Profile:
    """Run every DPU subgraph of a compiled model once; say where its cycles went, by layer.

    ``device`` counts cycles: ``cycle``, the default where it is installed, or ``rtl``.

    Raises
    ------
    ModelFormatError
        The model cannot be read, or has no DPU subgraph.
    UnsupportedError
        The device does not tell when instructions run.
    ToolError
        A program that the device needs is missing.
    """
    chosen = device or (CYCLE_DEVICE if CYCLE_DEVICE in known_devices() else "rtl")
    check_device(chosen)
    graph = model if isinstance(model, Graph) else load(model)
    return run_profile(graph, device=chosen, memory=memory, clock_mhz=clock_mhz, show=show)
