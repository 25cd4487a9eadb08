# SPDX-License-Identifier: Apache-2.0
"""From quantized graphs to compiled networks, kept on disk by the content that they are made of."""

import functools
import json
import pathlib
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

import xir
from opendpu import api
from opendpu.api import chosen_target
from opendpu.compiler.options import Options
from opendpu.compiler.report import Report
from opendpu.export.onnx_qdq import ORDER, output_name
from opendpu.ir import SCALARS, Array, FloatGraph, QuantizedGraph, digest_of
from opendpu.quantize import QuantizeConfig, quantize_with_report
from opendpu_arch import cache
from opendpu_arch.target import Target
from pytorch_nndct.storage import constants, restored, stored
from wego_torch import messages
from wego_torch.artefact import Artefact
from wego_torch.options import AccuracyMode, CompileOptions
from wego_torch.redundant import without_redundant_fixes
from wego_torch.target import chosen_device

KIND = "wego"
"""Folder in the cache."""
SOURCES = ("opendpu_arch", "opendpu", "xir", "pytorch_nndct", "wego_torch")
"""Packages that decide what a compiled network is."""


def compiled(
    graph: QuantizedGraph,
    names: Sequence[str],
    options: CompileOptions,
    *,
    batched: bool,
    show: Callable[[str], None] = lambda text: None,
) -> Artefact:
    """Return a quantized graph compiled, out of the cache where it was compiled before.

    Parameters
    ----------
    graph
        What a quantizer made.
    names
        Its inputs, in the order in which they will be given.
    options
        What the user asks for.
    batched
        Whether several samples are given at a time.
    show
        Told what is going on.

    Raises
    ------
    UnsupportedError
        No DPU can run what the quantizer made.
    """
    target = chosen_target(options.target)
    device = chosen_device(options.device) if options.device else ""
    own = Options(least_ops=options.partition.wego_subgraph_min_ops_number)
    if options.accuracy_mode is AccuracyMode.Default:
        graph = without_redundant_fixes(graph, target, own)
    model, report = _from_cache(graph, target, own, show)
    _say_what_is_on_the_cpu(report, options.partition.extra_accel_op_list)
    outputs = _outputs(loaded(model))
    orders = graph.attrs.get(ORDER, {})
    shown = {tensor: output_name(graph, name)
             for tensor, name in zip(outputs, graph.outputs, strict=True)}  # fmt: skip
    numbers = graph.attrs.get(SCALARS, ())
    scalars = tuple(tensor for tensor, user in shown.items() if user in numbers)
    shown |= {name: name for name in names}
    return Artefact(
        model=model, inputs=tuple(names), outputs=outputs,
        orders={name: tuple(orders[user]) for name, user in shown.items() if user in orders},
        batched=batched, device=device, workers=options.thread_parallel,
        cores=options.core_parallel, debug=options.debug.accuracy_debug, report=report,
        scalars=scalars,
    )  # fmt: skip


def quantized(
    graph: FloatGraph,
    data: Mapping[str, Array],
    config: QuantizeConfig,
    show: Callable[[str], None] = lambda text: None,
) -> QuantizedGraph:
    """Return a float graph quantized, out of the cache where it was with the same data.

    Parameters
    ----------
    graph
        From the front end.
    data
        Samples by input, in the graph's layout.
    config
        What the quantizer does.
    show
        Told what is going on.
    """

    def make(path: pathlib.Path) -> None:
        found = quantize_with_report(graph, data, config, show=show).graph
        torch.save({"graph": stored(found), "constants": constants(found)}, path)

    samples = [part for name in sorted(data) for part in (name, data[name].tobytes())]
    key = cache.digest(_sources(), digest_of(graph), repr(config), *samples)
    saved = torch.load(cache.entry(KIND, f"{key}.pth", make), weights_only=True)
    return restored(saved["graph"], saved["constants"])


def _from_cache(
    graph: QuantizedGraph, target: Target, options: Options, show: Callable[[str], None]
) -> tuple[bytes, dict[str, Any]]:
    """Return the compiled model and the report on it."""

    def make(folder: pathlib.Path) -> None:
        found = api.compile_graph(graph, target=target, options=options, show=show)
        folder.mkdir()
        found.graph.serialize(folder / "model.xmodel")
        (folder / "report.json").write_text(json.dumps(_plain(found.report)), encoding="utf-8")

    key = cache.digest(_sources(), f"{target.fingerprint:#x}", repr(options), digest_of(graph))
    folder = cache.entry(KIND, key, make)
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    return (folder / "model.xmodel").read_bytes(), report


def _plain(report: Report) -> dict[str, Any]:
    return {key: value for key, value in report.as_dict().items() if key != "pass_seconds"}


@functools.cache
def _sources() -> str:
    return cache.source_digest(*SOURCES)


def _outputs(graph: xir.Graph) -> tuple[str, ...]:
    """Return the tensors of the outputs of a compiled graph, in the order of the quantized one."""
    found = []
    for name in graph.get_attr("return_ops"):
        op = graph.get_op(name)
        assert op is not None, name
        found.append(op.get_output_tensor().name)
    return tuple(found)


def _say_what_is_on_the_cpu(report: dict[str, Any], wanted: Sequence[str]) -> None:
    """Write into the log which of the operators that the user wants on the DPU are not there."""
    functions = {name.removeprefix("aten::") for name in wanted}
    for name, why in report["on_cpu"].items():
        origin = report["origins"].get(name, "")
        found = [f for f in functions if name.split(".")[-1].split("_")[0] == f or f".{f}" in origin
                 or f"torch.nn.{f.capitalize()} " in origin]  # fmt: skip
        if found:
            messages.say_once(
                f"extra_accel_op_list: the DPU cannot accelerate aten::{found[0]} {name!r}: {why}"
            )


def loaded(model: bytes) -> xir.Graph:
    """Return the graph of a compiled model in memory."""
    with tempfile.TemporaryDirectory(prefix="opendpu-") as folder:
        path = pathlib.Path(folder, "model.xmodel")
        path.write_bytes(model)
        return api.load(path)
