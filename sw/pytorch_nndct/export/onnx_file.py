# SPDX-License-Identifier: Apache-2.0
"""Quantized networks as ONNX files."""

import dataclasses
import pathlib
import sys
from collections.abc import Mapping, Sequence

import numpy as np
import onnx
import onnxruntime

from opendpu.export import to_onnx
from opendpu.export.files import write_onnx
from opendpu.export.golden import file_name, make_folder
from opendpu.ir import Array
from opendpu_arch import outputs
from opendpu_arch.errors import DPUError
from pytorch_nndct import messages
from pytorch_nndct.program import IntegerNetwork

LAYERS_FOLDER = "onnx_layers"
CODE = "QUANTIZER_TORCH_EXPORT_ONNX"


@dataclasses.dataclass(frozen=True)
class Choice:
    """How a file is written; the arguments of ``export_onnx_model``."""

    native: bool = True
    dynamic_batch: bool = False
    opset: int | None = None
    verbose: bool = False
    dump_layers: bool = False
    check: bool = False
    optimized: bool = False


def write(
    network: IntegerNetwork, folder: pathlib.Path, name: str, last: Mapping[str, Array],
    choice: Choice,
) -> None:  # fmt: skip
    """Write ``<name>_int.onnx``.

    Raises
    ------
    VAIQError
        The graph cannot be written as ONNX, or its results differ from the ``.xmodel``'s.
    OutputError
        A file cannot be written.
    """
    try:
        model = to_onnx(
            network.quantized, "native" if choice.native else "nndct",
            dynamic_batch=choice.dynamic_batch, opset=choice.opset,
        )  # fmt: skip
    except DPUError as error:
        raise messages.error(CODE, str(error)) from error
    if choice.verbose:
        sys.stdout.write(f"{onnx.printer.to_text(model)}\n")
    path = make_folder(folder) / f"{name}_int.onnx"
    if choice.optimized:
        _write_optimized(model, path)
    else:
        write_onnx(model, path)
    messages.note(f"the ONNX model is {path}")
    if choice.check:
        _check(model, network, name, last)
    if choice.dump_layers:
        _dump(model, folder / LAYERS_FOLDER, last)


def _write_optimized(model: onnx.ModelProto, path: pathlib.Path) -> None:
    """Write what onnxruntime makes of a model with its basic rules, which every runtime reads."""
    options = onnxruntime.SessionOptions()
    level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.graph_optimization_level = level
    temporary = path.with_name(f".{path.name}.optimized")
    options.optimized_model_filepath = str(temporary)
    try:
        onnxruntime.InferenceSession(model.SerializeToString(), options)
        outputs.write(path, temporary.read_bytes())
    finally:
        temporary.unlink(missing_ok=True)


def _check(
    model: onnx.ModelProto, network: IntegerNetwork, name: str, last: Mapping[str, Array]
) -> None:
    """Compare a model in onnxruntime with what the compiled program computes."""
    names = [item.name for item in model.graph.output]
    found = _run(model, names, last)
    for shown, one, other in zip(names, found, network.run(last, None), strict=True):
        difference = float(np.abs(one - other).max(initial=0))
        if difference:
            raise messages.error(
                CODE,
                f"output {shown!r} of the ONNX model of {name} differs from the .xmodel's by up to "
                f"{difference:g}",
            )
    messages.note("the ONNX model computes what the .xmodel does, on the last sample")


def _dump(model: onnx.ModelProto, folder: pathlib.Path, last: Mapping[str, Array]) -> None:
    """Write the result of every node as ``.npy``."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    names = [value for node in model.graph.node for value in node.output if value]
    del copy.graph.output[:]
    copy.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    for value, array in zip(names, _run(copy, names, last), strict=True):
        path = make_folder(folder) / f"{file_name(value)}.npy"
        with outputs.writing(path) as file:
            np.save(file, array)
    messages.note(f"results of the ONNX model's nodes are in {folder}")


def _run(model: onnx.ModelProto, names: Sequence[str], last: Mapping[str, Array]) -> list[Array]:
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return list(session.run(list(names), dict(last)))
