# SPDX-License-Identifier: Apache-2.0
"""What calibration leaves on disk, and test mode reads.

``quant_info.json``
    Bit width and fractional bits of every tensor, for people and for tools that read AMD's.
``bias_corr.pth``
    Biases, as they were corrected.
``<Module>.pth``
    The quantized network, its other constants included.
``param.pth``
    The finetuned network; only where finetuning was asked for.
``<Module>.py``
    The converted module as a program, with the names of layers.
"""

import dataclasses
import hashlib
import io
import json
import os
import pathlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from opendpu.export.golden import make_folder
from opendpu.ir import Graph, Node, QuantizedGraph
from opendpu.ops.inference import reason_of
from opendpu_arch import outputs
from pytorch_nndct import messages
from pytorch_nndct.storage import constants, restored, stored

INFO = "quant_info.json"
BIASES = "bias_corr.pth"
PARAMETERS = "param.pth"
MISMATCH = "QUANTIZER_TORCH_CALIB_RESULT_MISMATCH"
"""Code of the error for a result of other layers or sizes."""


def is_info(file: str | os.PathLike[str] | None, folder: pathlib.Path) -> bool:
    """Return whether a file is the one with the scales that calibration wrote into a folder."""
    path = folder / INFO
    return file is not None and path.exists() and pathlib.Path(file).resolve() == path.resolve()


@dataclasses.dataclass(frozen=True)
class Result:
    """A calibrated network.

    Parameters
    ----------
    graph
        The quantized graph.
    structure, weights
        Digests of the float graph that it was made from.
    finetuned, bias_corrected
        What was done to it.
    """

    graph: QuantizedGraph
    structure: str
    weights: str
    finetuned: bool
    bias_corrected: bool


def structure_of(graph: Graph) -> str:
    """Return a digest of the ops of a graph: names, kinds, shapes."""
    lines = [f"{n.name} {n.kind} {n.shape}" for n in graph if n.value is None]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def weights_of(graph: Graph) -> str:
    """Return a digest of the constants of a graph."""
    found = hashlib.sha256()
    for node in graph:
        if node.value is not None:
            found.update(node.value.tobytes())
    return found.hexdigest()


def write(folder: pathlib.Path, module: str, result: Result, names: Mapping[str, str]) -> None:
    """Write what calibration found: all files, or an error that says which one failed.

    Raises
    ------
    OutputError
        A file cannot be written.
    """
    make_folder(folder)
    values = constants(result.graph)
    biases = {node.name for node in result.graph if node.value is not None
              and _reader(result.graph, node)[1] == "bias"}  # fmt: skip
    _save(folder / BIASES, {name: values[name] for name in biases})
    others = {name: value for name, value in values.items() if name not in biases}
    _save(folder / f"{module}.pth", {
        "graph": stored(result.graph), "constants": others, "structure": result.structure,
        "weights": result.weights,
    })  # fmt: skip
    info = {
        **steps(result.graph, names), "fast_finetuned": result.finetuned,
        "bias_corrected": result.bias_corrected,
    }  # fmt: skip
    outputs.write(folder / INFO, json.dumps(info, indent=2) + "\n")


Resize = Callable[[QuantizedGraph], QuantizedGraph | None]
"""Gives a calibrated graph for other sizes of images; nothing where more differs than these."""


def read(
    folder: pathlib.Path, module: str, graph: Graph, *, trained: bool = False,
    resize: Resize | None = None,
) -> Result:  # fmt: skip
    """Return what :func:`write` wrote, for a module whose float graph is ``graph``.

    With ``trained``, its weights may be others, as before training; with ``resize``, its sizes.

    Raises
    ------
    VAIQError
        There is nothing, it is of another module, or of one with other weights.
    """
    info = _info(folder)
    saved = _load(folder / f"{module}.pth", "QUANTIZER_TORCH_NO_CALIB_RESULT")
    mismatch = messages.error(
        MISMATCH,
        f"{folder / INFO} was written for a module {module} with other layers or sizes; "
        "calibrate again with this one",
    )
    differs = saved["structure"] != structure_of(graph)
    if differs and (resize is None or saved["weights"] != weights_of(graph)):
        raise mismatch
    biases = _load(folder / BIASES, "QUANTIZER_TORCH_BIAS_CORRECTION")
    missing = [n["name"] for n in saved["graph"]["nodes"] if n["constant"]
               and n["name"] not in saved["constants"] and n["name"] not in biases]  # fmt: skip
    if missing or not (trained or saved["weights"] == weights_of(graph)):
        what = f"has no bias {missing[0]!r}" if missing else "is of other weights than this module"
        raise messages.error(
            "QUANTIZER_TORCH_BIAS_CORRECTION", f"{folder / BIASES} {what}; calibrate again"
        )
    found = restored(saved["graph"], {**saved["constants"], **biases})
    if differs and resize is not None:
        other = resize(found)
        if other is None:
            raise mismatch
        found = other
    return Result(
        found, structure_of(graph), saved["weights"], bool(info["fast_finetuned"]),
        bool(info["bias_corrected"]),
    )  # fmt: skip


def examples(folder: pathlib.Path, module: str) -> tuple[torch.Tensor, ...]:
    """Return zeros with the shapes and types that a module was calibrated with, in order.

    Raises
    ------
    VAIQError
        There is no result of such a module.
    """
    nodes = _inputs(folder, module)
    return tuple(torch.from_numpy(np.zeros(shape, dtype)) for shape, dtype in nodes)


def input_shapes(folder: pathlib.Path, module: str) -> list[tuple[int, ...]]:
    """Return the shapes that a module was calibrated with, in order.

    Raises
    ------
    VAIQError
        There is no result of such a module.
    """
    return [shape for shape, _ in _inputs(folder, module)]


def shapes_of(graph: Graph) -> list[tuple[int, ...]]:
    """Return the shapes of a graph's inputs, in order, as the module takes them."""
    orders = graph.attrs.get("onnx_order", {})
    return [
        _module_shape(node.shape, orders.get(node.name)) for node in graph if node.kind == "data"
    ]


def _inputs(folder: pathlib.Path, module: str) -> list[tuple[tuple[int, ...], np.dtype[Any]]]:
    saved = _load(folder / f"{module}.pth", "QUANTIZER_TORCH_NO_CALIB_RESULT")
    orders = saved["graph"]["attrs"].get("onnx_order", {})
    return [
        (_module_shape(node["shape"], orders.get(node["name"])), np.dtype(node["dtype"]))
        for node in saved["graph"]["nodes"]
        if node["kind"] == "data"
    ]


def _module_shape(shape: Sequence[int], order: Sequence[int] | None) -> tuple[int, ...]:
    """Return a shape in the order of the module's axes."""
    places = list(range(len(shape)) if order is None else order)
    return tuple(shape[places.index(axis)] for axis in range(len(shape)))


def is_finetuned(folder: pathlib.Path) -> bool:
    """Return whether a result wants its finetuned parameters; VAIQError if there is none."""
    return bool(_info(folder)["fast_finetuned"])


def write_parameters(folder: pathlib.Path, result: Result) -> None:
    """Write a finetuned network."""
    make_folder(folder)
    _save(folder / PARAMETERS, {
        "graph": stored(result.graph), "constants": constants(result.graph),
        "structure": result.structure, "weights": result.weights,
    })  # fmt: skip


def read_parameters(
    folder: pathlib.Path, graph: Graph, resize: Resize | None = None
) -> QuantizedGraph:
    """Return a finetuned network; with ``resize``, perhaps of other sizes.

    Raises
    ------
    VAIQError
        There is none for a module with this float graph.
    """
    path = folder / PARAMETERS
    found = _load(path, "QUANTIZER_TORCH_FAST_FINETUNE")
    made: QuantizedGraph | None = None
    if found["weights"] == weights_of(graph):
        made = restored(found["graph"], found["constants"])
        if found["structure"] != structure_of(graph):
            made = None if resize is None else resize(made)
    if made is None:
        raise messages.error(
            "QUANTIZER_TORCH_FAST_FINETUNE",
            f"{path} was finetuned from another module, or from other weights; call fast_finetune "
            "again in calibration mode",
        )
    return made


def steps(graph: QuantizedGraph, names: Mapping[str, str]) -> dict[str, dict[str, list[Any]]]:
    """Return ``[[bits, fractional bits]]`` of tensors by name: parameters, outputs, inputs.

    Instead of fractional bits, a tensor has its scale where that is no single power of two, and its
    number format where it has none.
    """
    found: dict[str, dict[str, list[Any]]] = {"param": {}, "output": {}, "input": {}}
    for node in graph:
        if node.kind != "fix":
            continue
        source, kept = graph[node.inputs["input"][0]], node.quantization
        step: Any = list(kept.scale)
        if getattr(kept, "number_format", "int") != "int":
            step = str(kept.number_format)
        elif kept.is_power_of_two:
            step = kept.fix_point
        role = "output"
        name = names.get(source.name, source.name)
        if source.value is not None:
            role, (layer, arg) = "param", _reader(graph, source)
            name = f"{layer}.{'weight' if arg == 'weights' else arg}" if arg else source.name
        elif source.kind == "data":
            role = "input"
        found[role][name] = [[kept.bits, step]]
    return found


def _reader(graph: QuantizedGraph, constant: Node) -> tuple[str, str]:
    """Return the op that reads a constant and as which argument; empty where none does."""
    waiting = [constant.name]
    while waiting:
        name = waiting.pop()
        for user in graph.consumers(name):
            if user.kind == "fix":
                waiting.append(user.name)
                continue
            arg = next(arg for arg, sources in user.inputs.items() if name in sources)
            return user.name, arg
    return "", ""


def _info(folder: pathlib.Path) -> dict[str, Any]:
    path = folder / INFO
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if {"fast_finetuned", "bias_corrected"} <= set(found):
            return dict(found)
        reason = "it has not what calibration writes"
    except FileNotFoundError:
        reason = "it is missing"
    except (OSError, ValueError) as error:
        reason = str(error)
    raise messages.error(
        "QUANTIZER_TORCH_NO_CALIB_RESULT",
        f"{path} cannot be used: {reason}; run in quant_mode 'calib' and call export_quant_config "
        "first",
    )


def _save(path: pathlib.Path, value: Any) -> None:
    content = io.BytesIO()
    torch.save(value, content)
    outputs.write(path, content.getvalue())


def _load(path: pathlib.Path, code: str) -> dict[str, Any]:
    try:
        return dict(torch.load(path, map_location="cpu", weights_only=True))
    except FileNotFoundError:
        reason = "no such file"
    except Exception as error:  # what PyTorch happens to raise for a broken file
        reason = reason_of(error)
    raise messages.error(code, f"{path} cannot be used: {reason}")


def remove(folder: pathlib.Path, names: Iterable[str]) -> None:
    """Remove files of an earlier run, so that nothing of it is taken for this one's."""
    for name in names:
        (folder / name).unlink(missing_ok=True)
