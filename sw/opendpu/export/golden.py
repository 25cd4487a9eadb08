# SPDX-License-Identifier: Apache-2.0
"""Golden results: the numbers of every layer in files, to compare a device's with.

For each tensor ``quant_NAME.bin``, the integers row by row as they lie in the device's memory
(feature maps NHWC, little-endian, a byte each for 8 bits), and ``quant_NAME.txt``, one a line. What
is not quantized is in ``quant_NAME_float.bin`` (float32) and ``.txt``. A ``/`` in a name is ``_``
in that of the file.
"""

import os
import pathlib
from collections.abc import Iterable, Mapping

import numpy as np

from opendpu.export.onnx_qdq import output_name
from opendpu.export.quantized_builder import quantized
from opendpu.export.reference import IntegerReference, computed_fixes, constant_fixes
from opendpu.ir import Array, QuantizedGraph
from opendpu.quantize.layers import is_layer, parameters_of
from opendpu_arch import outputs
from opendpu_arch.errors import OutputError

Path = str | os.PathLike[str]

WEIGHTS = "dump_results_weights"
"""Folder of the constants, where they have one."""
BATCH = "dump_results_{}"
"""Folder of a batch, where each has one."""


def dump_weights(graph: QuantizedGraph, folder: Path, *, names: Mapping[str, str]) -> list[str]:
    """Write the integers of every constant; return their names.

    ``names`` are those of weights and biases in files, by argument: ``{"weights": "_kernel"}`` for
    a file ``quant_LAYER_kernel``. Constants of other ops are called as the graph calls them.

    Raises
    ------
    OutputError
        A file cannot be written.
    """
    written = []
    called = _constant_names(graph, names)
    for fix in constant_fixes(graph):
        node = graph[fix]
        value = graph[node.sources()[0]].value
        assert value is not None
        written.append(called.get(fix, node.sources()[0]))
        _write(pathlib.Path(folder), written[-1], quantized(value, node.quantization))
    return written


def dump_activations(
    reference: IntegerReference,
    inputs: Mapping[str, Array],
    folder: Path,
    *,
    dump_float: bool = False,
) -> list[str]:
    """Write what every layer computes of one batch; return the names of the tensors.

    Raises
    ------
    OutputError
        A file cannot be written.
    """
    graph, place = reference.graph, pathlib.Path(folder)
    results = reference.run(inputs)
    written = []
    for name in reference.integers:
        shown = shown_name(graph, name)
        _write(place, shown, results[name])
        written.append(shown)
        if dump_float:
            scale = graph[name].quantization.scale[0]
            zero = graph[name].quantization.zero_point[0]
            _write(place, f"{shown}_float", (results[name] - np.float32(zero)) * np.float32(scale))
    for name in reference.floats if dump_float else ():
        _write(place, f"{name}_float", results[name])
        written.append(name)
    return written


def file_name(name: str) -> str:
    """Return what the files of a tensor are called, without suffix."""
    return f"quant_{name.replace('/', '_')}"


def shown_name(graph: QuantizedGraph, fix: str) -> str:
    """Return the name of the tensor behind a ``fix``: the output's, or that of the op before."""
    return output_name(graph, fix) if fix in graph.outputs else graph[fix].sources()[0]


def make_folder(path: Path) -> pathlib.Path:
    """Make a folder and those above it; OutputError if that is not possible."""
    outputs.check_folder(path)
    folder = pathlib.Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{folder} cannot be made: {error.strerror or error}") from error
    return folder


def _constant_names(graph: QuantizedGraph, names: Mapping[str, str]) -> dict[str, str]:
    """Return the names of weights and biases by ``fix``: the layer's, and what they are."""
    found: dict[str, str] = {}
    shown = {graph[name].sources()[0]: shown_name(graph, name) for name in computed_fixes(graph)}
    for node in graph:
        if not is_layer(node):
            continue
        arguments = parameters_of(node)
        for arg, role in ((arguments.weights, "weights"), (arguments.bias, "bias")):
            for constant in node.inputs.get(arg, ()):
                found[constant] = f"{shown.get(node.name, node.name)}{names[role]}"
    return found


def _write(folder: pathlib.Path, name: str, array: Array) -> None:
    array = np.ascontiguousarray(array)
    stored = array.astype(array.dtype.newbyteorder("<"), copy=False)
    outputs.write(folder / f"{file_name(name)}.bin", stored.tobytes())
    lines: Iterable[str] = map(str, array.ravel().tolist())
    outputs.write(folder / f"{file_name(name)}.txt", "".join(f"{line}\n" for line in lines))
