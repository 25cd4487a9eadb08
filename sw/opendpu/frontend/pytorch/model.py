# SPDX-License-Identifier: Apache-2.0
"""From PyTorch to a float graph: ``torch.export``, PyTorch's ONNX exporter, our ONNX front end."""

import contextlib
import dataclasses
import pathlib
import zipfile
from collections.abc import Mapping
from typing import Any

import onnx
import torch
from onnxscript import ir, optimizer
from torch.export import ExportedProgram

from opendpu.frontend.binding import Sizes
from opendpu.frontend.lowering import load_onnx
from opendpu.frontend.pytorch.batch import Call, single_sample
from opendpu.frontend.pytorch.capture import TRACE, capture, quiet, tracing
from opendpu.frontend.pytorch.decomposed import register
from opendpu.frontend.pytorch.markers import Floating, take_out, translations
from opendpu.frontend.pytorch.naming import Place, rename
from opendpu.frontend.pytorch.signature import (
    Signature,
    TensorsOnly,
    has_only_tensors,
    leaves_of,
    signature_of,
)
from opendpu.frontend.pytorch.torchlib import collected_once
from opendpu.frontend.pytorch.translations import repaired
from opendpu.frontend.requantizing import Requantize
from opendpu.ir import FloatGraph, Origin
from opendpu.ops.batching import mixes_samples
from opendpu.ops.inference import reason_of
from opendpu.ops.quantizing import OPERATORS
from opendpu_arch.errors import ModelFormatError, UnsupportedError


@dataclasses.dataclass(frozen=True)
class Traced:
    """A module as a float graph, and how the module is called.

    Parameters
    ----------
    graph
        Its inputs have the names of the module's arguments; ops those of the modules that make
        them, ``layer1.0.conv1``.
    signature
        Nested arguments and results as the graph's inputs and outputs.
    batched
        Whether the graph takes one sample of what the module takes many at a time.
    floating
        What is not to be quantized, as markers in the module say.
    places
        Where in the module ops come from.
    program
        What ``torch.export`` made.
    """

    graph: FloatGraph
    signature: Signature
    batched: bool
    floating: Floating
    places: Mapping[str, Place]
    program: ExportedProgram


def load_torch(model: torch.nn.Module | ExportedProgram, example_inputs: Any = None) -> FloatGraph:
    """Convert a PyTorch module or an exported program to a float graph.

    Ops have the names of the modules that make them (``layer1.0.conv1``), their
    :class:`~opendpu.ir.types.Origin` says class and source line. Layouts are those of
    :func:`opendpu.frontend.load_onnx`.

    Parameters
    ----------
    model
        A module, what ``torch.jit.trace`` made, or an exported program.
    example_inputs
        What a module is called with: a tensor, or a tuple of arguments, whose last one may be a
        dictionary of keyword arguments. If it holds several samples, and the module treats each by
        itself, the graph takes one. An exported program needs none.

    Raises
    ------
    UnsupportedError
        The module cannot be traced, or holds what can be neither converted nor computed by
        onnxruntime: with the line of its source.
    """
    if isinstance(model, ExportedProgram):
        return load_program(model)
    return trace(model, example_inputs).graph


def load_program(
    program: ExportedProgram | str | pathlib.Path,
    input_shapes: Sizes | None = None,
    *,
    any_scale: bool = False,
    requantize: Requantize = Requantize.NO,
) -> FloatGraph:
    """Convert an exported program, in memory or a ``.pt2`` file, to a float graph.

    Parameters are those of :func:`opendpu.frontend.load_onnx`: dimensions that the program leaves
    open get their sizes from ``input_shapes``, a batch that is open becomes 1; what PyTorch's PT2E
    quantization wrote is treated as a quantized ONNX model is.

    Raises
    ------
    ModelFormatError
        The file cannot be read, or holds no exported program.
    UnsupportedError
        It holds what can be neither converted nor computed by onnxruntime.
    """
    return program_as_onnx(program).graph(input_shapes, any_scale=any_scale, requantize=requantize)


def program_as_onnx(program: ExportedProgram | str | pathlib.Path) -> "ProgramAsOnnx":
    """Convert an exported program, in memory or a ``.pt2`` file, to ONNX.

    Raises
    ------
    ModelFormatError, UnsupportedError
        As for :func:`load_program`.
    """
    label = "model"
    if not isinstance(program, ExportedProgram):
        label = pathlib.Path(program).stem
        program = _read(pathlib.Path(program))
    return _as_onnx(program, label)


def as_onnx(module: torch.nn.Module, example_inputs: Any) -> onnx.ModelProto:
    """Return a module as ONNX, nothing folded: every parameter is an initializer of its name.

    Nodes have the names of the modules that make them, as the ops of :func:`load_torch`.

    Raises
    ------
    UnsupportedError
        As for :func:`load_torch`.
    """
    args, kwargs = arguments(example_inputs)
    one, _, _ = single_sample(module, args, kwargs)
    name = type(module).__name__
    model = _onnx(capture(module, *one), name)
    rename(model, "")
    proto: onnx.ModelProto = ir.to_proto(model)
    proto.graph.name = name
    return proto


def trace(
    module: torch.nn.Module, example_inputs: Any, *, requantize: Requantize = Requantize.NO
) -> Traced:
    """Convert a module to a float graph and say how it is called.

    See :func:`load_torch`, and :func:`load_program` for ``requantize``.
    """
    args, kwargs = arguments(example_inputs)
    name = getattr(module, "original_name", type(module).__name__)
    one, result, batched = single_sample(module, args, kwargs)
    tensors_only = has_only_tensors(result)
    program = capture(module if tensors_only else TensorsOnly(module), *one)
    prefix = "" if tensors_only else "model"
    made = _as_onnx(program, name, prefix)
    graph = made.graph(_shapes(program, one), requantize=requantize)
    signature = signature_of(program, made.outputs, None if tensors_only else result)
    return Traced(graph, signature, batched, made.floating, made.places, program)


def program_traced(
    program: ExportedProgram,
    input_shapes: Sizes | None = None,
    *,
    any_scale: bool = False,
    requantize: Requantize = Requantize.NO,
) -> Traced:
    """Convert an exported program to a graph and say how it is called; see :func:`load_program`."""
    made = _as_onnx(program, "model")
    graph = made.graph(input_shapes, any_scale=any_scale, requantize=requantize)
    heads = [node for node in graph if node.kind == "data"]
    batched = all(node.shape[:1] == (1,) for node in heads) and not mixes_samples(
        graph, graph.outputs
    )
    signature = signature_of(program, made.outputs)
    return Traced(graph, signature, batched, made.floating, made.places, program)


def arguments(example_inputs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return positional and keyword arguments of a call, as ``torch.onnx.export`` takes them."""
    several = isinstance(example_inputs, list | tuple)
    args = tuple(example_inputs) if several else (example_inputs,)
    if len(args) > 1 and isinstance(args[-1], dict) and all(isinstance(k, str) for k in args[-1]):
        return args[:-1], dict(args[-1])
    return args, {}


def _shapes(program: ExportedProgram, call: Call) -> dict[str, tuple[int, ...]]:
    """Return the shape of each input of a program that was made of a call."""
    names = program.graph_signature.user_inputs
    leaves = leaves_of(call)
    return {
        str(name): tuple(leaf.shape)
        for name, leaf in zip(names, leaves, strict=True)
        if isinstance(leaf, torch.Tensor)
    }


def _has_version(path: pathlib.Path) -> bool:
    """Return whether an archive says, as exported programs do, which version wrote it."""
    with contextlib.suppress(OSError, zipfile.BadZipFile), zipfile.ZipFile(path) as file:
        names = {pathlib.PurePosixPath(name).name for name in file.namelist()}
        return bool(names & {"version", "archive_version", "archive_format"})
    return False


def _read(path: pathlib.Path) -> ExportedProgram:
    if not path.is_file():
        raise ModelFormatError(f"{path}: no such file")
    if not zipfile.is_zipfile(path):
        raise ModelFormatError(f"{path} is no exported program (torch.export.save): no archive")
    if not _has_version(path):  # PyTorch prints pages about such archives before it raises
        raise ModelFormatError(
            f"{path} is no exported program (torch.export.save): another kind of archive"
        )
    register()
    try:
        return torch.export.load(path)
    except Exception as error:  # PyTorch raises what its parts happen to raise
        reason = reason_of(error)
        raise ModelFormatError(
            f"{path} is no exported program (torch.export.save): {reason}"
        ) from None


@dataclasses.dataclass(frozen=True)
class ProgramAsOnnx:
    """A program as ONNX, and what its nodes are.

    Parameters
    ----------
    proto
        The model: nodes have the names of the modules that make them.
    floating, places
        As of :class:`Traced`.
    """

    proto: onnx.ModelProto
    floating: Floating
    places: Mapping[str, Place]

    @property
    def outputs(self) -> list[str]:
        """Names of the outputs."""
        return [str(item.name) for item in self.proto.graph.output]

    def graph(
        self,
        input_shapes: Sizes | None = None,
        *,
        any_scale: bool = False,
        requantize: Requantize = Requantize.NO,
    ) -> FloatGraph:
        """Return it as a graph; parameters and errors are those of :func:`load_program`.

        Operators that quantize are called as in ONNX.
        """
        made = load_onnx(self.proto, input_shapes, any_scale=any_scale, requantize=requantize)
        for node in made:
            place = self.places.get(node.origin.name)
            if place is not None:
                own = node.origin.op_type if node.origin.op_type in OPERATORS else place.kind
                node.origin = Origin(node.origin.name, own, place.line)
        return made


def _as_onnx(program: ExportedProgram, name: str, prefix: str = "") -> ProgramAsOnnx:
    """Convert a program; ``prefix`` is that of the names of its modules."""
    model = _onnx(program, name)
    places = rename(model, prefix)
    floating = take_out(model, {node: place.target for node, place in places.items()})
    optimizer.fold_constants(model)
    optimizer.remove_unused_nodes(model)
    proto = ir.to_proto(model)
    proto.graph.name = name
    return ProgramAsOnnx(proto, floating, places)


def _onnx(program: ExportedProgram, name: str) -> ir.Model:
    """Return a program as ONNX, as it is written: not optimized."""
    try:
        with tracing(), quiet(), collected_once():
            made = torch.onnx.export(
                program, dynamo=True, verbose=False, optimize=False,
                custom_translation_table={**translations(), **repaired()},
            )  # fmt: skip
            assert made is not None
    except torch.onnx.OnnxExporterError as error:
        raise UnsupportedError(f"{name}: {_reason(error)}", code=TRACE) from error
    return made.model


def _reason(error: BaseException) -> str:
    """Return the first cause of a failed conversion, on one line."""
    while error.__cause__ is not None:
        error = error.__cause__
    return " ".join(str(error).split()) or type(error).__name__
