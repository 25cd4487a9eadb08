# SPDX-License-Identifier: Apache-2.0
"""Files that quantized models are written to: which there are, and what they can hold."""

import os
import pathlib
from collections.abc import Sequence

import onnx

from opendpu.export import to_onnx
from opendpu.export.files import write_onnx
from opendpu.export.forms import form_of
from opendpu.export.open_batch import keeps_open_batch, name_batch
from opendpu.frontend.binding import Sizes
from opendpu.ir import QuantizedGraph, to_xir
from opendpu.quantize.config import QuantizeConfig
from opendpu_arch import outputs
from opendpu_arch.errors import OutputError, UnsupportedError

SUFFIXES = (".xmodel", ".onnx")
"""What a quantized model may be written as."""

Path = str | os.PathLike[str]


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


def check_integers(config: QuantizeConfig) -> None:
    """Raise UnsupportedError if golden results, which are integers, cannot be made."""
    for role, spec in config.specs():
        if spec.number_format not in ("int", "float32"):
            raise UnsupportedError(
                f"golden results (--dump) are integers, but {role} is {spec.number_format}"
            )


def open_in_source(
    path: Path, output: Path, graph: QuantizedGraph, sizes: Sizes | None
) -> onnx.ModelProto | None:
    """Return the ONNX model in a file, without its weights, if its batch stays open in another."""
    if any(pathlib.Path(file).suffix != ".onnx" for file in (path, output)):
        return None
    source = onnx.load(path, load_external_data=False)
    return source if keeps_open_batch(source, graph, sizes) else None


def write_quantized(
    graph: QuantizedGraph,
    path: Path,
    *,
    form: str = "native",
    exact: bool = True,
    open_in: onnx.ModelProto | None = None,
) -> None:
    """Write a quantized graph as ``.xmodel`` or ``.onnx``, complete or not at all.

    An ``.onnx`` file takes any number of samples if the model ``open_in`` does.
    """
    if pathlib.Path(path).suffix == ".xmodel":
        to_xir(graph).serialize(path)
        return
    made = to_onnx(graph, form, exact=exact, dynamic_batch=open_in is not None)
    if open_in is not None:
        name_batch(made, open_in)
    write_onnx(made, path)
