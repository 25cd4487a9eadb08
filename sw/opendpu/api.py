# SPDX-License-Identifier: Apache-2.0
"""The user's way in: models from and to files, runners, targets.

>>> graph = opendpu.api.load("model.xmodel")
>>> with opendpu.api.create_runner(graph, device="iss") as runner:
...     outputs = runner.run({"input": image})
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence

from opendpu.compile_model import compile_graph, compile_onnx, compile_xmodel
from opendpu.compiler.options import Options
from opendpu.frontend import load_model
from opendpu.frontend.formats import Format, format_of
from opendpu.frontend.input_values import Values, check_no_values
from opendpu.inspect_model import inspect
from opendpu.ir import to_xir
from opendpu.profile import COUNTER, Profile
from opendpu.profile import profile as run_profile
from opendpu.quantize.progress import silent
from opendpu.quantize_model import quantize_onnx
from opendpu.runners import create_runner, load
from opendpu.runtime.batch import run_batch
from opendpu.runtime.devices import check_device, known_devices
from opendpu.runtime.program import Program, dpu_subgraphs
from opendpu.targets import chosen_target, find_target
from opendpu_arch.target import CLOCK_MHZ
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


def load_any(
    path: str | os.PathLike[str],
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    *,
    input_values: Values | None = None,
) -> Graph:
    """Return the graph in a model file of any framework, or in an ``.xmodel``.

    Quantized tensors have the scales and zero points that the file says, whatever they are.

    Raises
    ------
    ModelFormatError, UnsupportedError
        The file cannot be read, or not be converted.
    """
    if format_of(os.fspath(path)) is Format.XMODEL:
        check_no_values(path, input_values)
        return load(path)
    return to_xir(
        load_model(os.fspath(path), input_shapes or {}, input_values=input_values, any_scale=True)
    )


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


def profile(
    model: Graph | str | os.PathLike[str],
    *,
    device: str | None = None,
    memory: str | None = None,
    clock_mhz: float = CLOCK_MHZ,
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
    chosen = device or (COUNTER if COUNTER in known_devices() else "rtl")
    check_device(chosen)
    graph = model if isinstance(model, Graph) else load(model)
    return run_profile(graph, device=chosen, memory=memory, clock_mhz=clock_mhz, show=show)
