# SPDX-License-Identifier: Apache-2.0
"""Files of ``torch.jit.save`` as float graphs."""

import pathlib
import warnings
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from opendpu.frontend.binding import Sizes
from opendpu.frontend.pytorch.model import trace
from opendpu.ir import FloatGraph
from opendpu.ops.inference import reason_of
from opendpu_arch.errors import ModelFormatError, UnsupportedError


def load_script(path: str | pathlib.Path, input_shapes: Sizes | None = None) -> FloatGraph:
    """Convert what ``torch.jit.trace`` made, in a file of ``torch.jit.save``, to a float graph.

    TorchScript says no shapes: ``input_shapes`` has that of every input, ``""`` that of the only
    one. Inputs are float32.

    Raises
    ------
    ModelFormatError
        The file cannot be read, or is no TorchScript.
    UnsupportedError
        A shape is missing, an input is no tensor, or the program has control flow.
    """
    module: Any = _read(pathlib.Path(path))
    arguments = module.forward.schema.arguments[1:]
    names = [str(argument.name) for argument in arguments]
    for argument in arguments:
        if str(argument.type) != "Tensor":
            raise UnsupportedError(
                f"{path}: input {argument.name!r} is of {argument.type}, but must be a tensor"
            )
    shapes = _shapes(path, names, input_shapes or {})
    generator = torch.Generator().manual_seed(0)
    made = trace(module, tuple(torch.rand(shape, generator=generator) for shape in shapes))
    _named(made.graph, dict(zip(map(str, made.program.graph_signature.user_inputs), names,
                                strict=True)))  # fmt: skip
    return made.graph


def _named(graph: FloatGraph, names: Mapping[str, str]) -> None:
    """Give inputs, in place, their names in the file instead of those of the conversion."""
    order = graph.attrs.get("onnx_order", {})
    for old, new in names.items():
        if old == new:
            continue
        graph.rename(old, new)
        if old in order:
            order[new] = order.pop(old)


def _read(path: pathlib.Path) -> Any:
    if not path.is_file():
        raise ModelFormatError(f"{path}: no such file")
    if not zipfile.is_zipfile(path):
        raise ModelFormatError(f"{path} is no TorchScript (torch.jit.save): no archive")
    with zipfile.ZipFile(path) as archive:
        if not any(name.endswith("/constants.pkl") for name in archive.namelist()):
            raise ModelFormatError(
                f"{path} is no TorchScript (torch.jit.save); files of torch.save need their "
                "module's source: write the module with torch.export.save instead"
            )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of all of torch.jit
            return torch.jit.load(path, map_location="cpu")  # type: ignore[no-untyped-call]
    except Exception as error:  # PyTorch raises what its parts happen to raise
        reason = reason_of(error)
        raise ModelFormatError(f"{path} is no TorchScript (torch.jit.save): {reason}") from None


def _shapes(path: str | pathlib.Path, names: Sequence[str], given: Sizes) -> list[tuple[int, ...]]:
    """Return the shape of each input."""
    known = {names[0] if not key and len(names) == 1 else key: value
             for key, value in given.items()}  # fmt: skip
    unknown = sorted(set(known) - set(names))
    if unknown:
        raise UnsupportedError(
            f"{path} has no input {unknown[0]!r}; its inputs are: {', '.join(names)}"
        )
    missing = [name for name in names if name not in known]
    if missing:
        raise UnsupportedError(
            f"{path} is TorchScript, which does not say shapes: give that of "
            f"{', '.join(missing)}, for example: --input-shape {missing[0]}=1,3,224,224"
        )
    found = [known[name] for name in names]
    return [(size,) if isinstance(size, int) else tuple(size) for size in found]
