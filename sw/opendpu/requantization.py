# SPDX-License-Identifier: Apache-2.0
"""Models that are quantized with scales that the DPU does not compute with, and other scales."""

import functools
import os
import pathlib
import typing
import warnings
from collections.abc import Mapping, Sequence

import numpy as np
import onnx

from opendpu.frontend import load_model
from opendpu.frontend.binding import Sizes
from opendpu.frontend.formats import Format, format_of
from opendpu.frontend.input_values import Values
from opendpu.frontend.integer_ports import with_real_ports
from opendpu.frontend.model_file import AnyModel, constants_of, read_model
from opendpu.frontend.narrow_pairs import with_bytes
from opendpu.frontend.pair_operands import with_plain_operands
from opendpu.frontend.qlinear import expanded
from opendpu.frontend.qonnx import without_qonnx
from opendpu.frontend.requantizing import (
    Requantize,
    has_other_scales,
    left_quantizers,
    quantized_ranges,
)
from opendpu.ir import NOTES, Array, FloatGraph, Node, QuantizedGraph
from opendpu.ops import operator_of
from opendpu.ops.quantizing import DEQUANTIZE
from opendpu.quantize import Quantized, Report, complete, is_quantized
from opendpu.quantize.layers import is_layer
from opendpu.quantize.noise import sqnr
from opendpu.quantize.samples import calibration_samples
from opendpu.quantize.transforms.fold import fold

if typing.TYPE_CHECKING:
    from opendpu.frontend.pytorch.model import ProgramAsOnnx

SAMPLES = 16
SEED = 0

Path = str | os.PathLike[str]


def load_for_quantizing(
    path: Path,
    input_shapes: Sizes | None = None,
    libraries: Sequence[str | pathlib.Path] = (),
    *,
    input_values: Values | None = None,
    requantize: bool = False,
    has_samples: bool,
    any_scale: bool = False,
    warn: bool = False,
) -> FloatGraph | Quantized:
    """Return a float graph to be quantized with samples, or a quantized graph where it is one.

    Parameters
    ----------
    path, input_shapes, libraries, input_values
        As of :func:`opendpu.frontend.load_model`.
    requantize
        Whether scales that the DPU does not compute with may be changed: by quantizing the weights
        that they stand for with samples, where there are some, else to the power of two that holds
        the range of each tensor. The report says what the latter costs.
    has_samples
        Whether there are samples.
    any_scale
        Whether the target computes with any scale, so that none needs to be changed.
    warn
        Whether to warn where scales may be changed, but the model has none to change.

    Raises
    ------
    ModelFormatError, UnsupportedError
        As of :func:`opendpu.frontend.load_model`.
    """
    mode = Requantize.chosen(wanted=requantize, has_samples=has_samples)
    file = _File(path, input_shapes, input_values, libraries)
    graph = file.graph(mode, any_scale=any_scale and not requantize)
    warn = warn and requantize
    if not is_quantized(graph):
        if warn and not file.has_other_scales():
            warn_needless(path, quantized=False)
        return graph
    found = by_ranges(graph) if mode is Requantize.RANGES else complete(graph)
    if mode is not Requantize.RANGES or not file.has_other_scales():
        if warn:
            warn_needless(path, quantized=True)
        if any_scale and not requantize and (without := without_range(found)):
            note = f"{_no_range(without)} (--requantize with --calib gives them one)"
            found.attrs[NOTES] = [*found.attrs.get(NOTES, ()), note]
        return Quantized(found, None)
    reference = file.graph(Requantize.DATA)
    loss = _loss(reference, Quantized(found, None), file.input_ranges())
    if without := without_range(found):
        loss.note(f"{_no_range(without)} (samples give them one: --calib)")
    return Quantized(found, loss, reference)


def warn_needless(path: Path, *, quantized: bool) -> None:
    """Warn of a model whose scales may be changed, but which has none to change.

    ``quantized`` says whether it has those of the DPU, or none at all.
    """
    why = "it is quantized with scales of the DPU" if quantized else "it is a float model"
    warnings.warn(f"{os.fspath(path)} has no scales to change (--requantize): {why}", stacklevel=3)


def by_ranges(graph: FloatGraph) -> QuantizedGraph:
    """Return the quantized graph of a model that was loaded with ``Requantize.RANGES``.

    Its weights are real numbers, into which normalizations are folded.
    """
    fold(graph)
    return complete(graph)


def _no_range(layers: Sequence[Node]) -> str:
    return (
        f"{len(layers)} layers, the first {layers[0].name!r}, have no range in the file for what "
        "they take or give and stay on the CPU"
    )


def without_range(graph: QuantizedGraph) -> list[Node]:
    """Return the layers whose inputs or result, after a fused activation, are not rounded.

    Quantizers for CPUs and GPUs often round only what a layer takes.
    """
    readers = graph.consumer_map()

    def is_rounded(node: Node) -> bool:
        users = readers[node.name]
        if len(users) == 1 and users[0].kind in operator_of(node).fuses:
            users = readers[users[0].name]
        return bool(users) and all(user.kind == "fix" for user in users)

    return [
        node for node in graph
        if is_layer(node)
        and not (graph[node.inputs["input"][0]].kind == "fix" and is_rounded(node))
    ]  # fmt: skip


def load_for_inspection(
    path: Path,
    input_shapes: Sizes | None = None,
    libraries: Sequence[str | pathlib.Path] = (),
    *,
    input_values: Values | None = None,
    any_scale: bool = False,
) -> tuple[FloatGraph, bool]:
    """Return the graph of a model, and whether its scales would have to be changed.

    Those of a TFLite or ONNX file that the DPU does not compute with are then left out. Parameters
    and errors are those of :func:`load_for_quantizing`.
    """
    file = _File(path, input_shapes, input_values, libraries)
    if file.format is Format.TFLITE and not any_scale and file.has_other_scales():
        return file.graph(Requantize.DATA), True
    graph = file.graph(any_scale=any_scale)
    if any_scale or not left_quantizers(graph):
        return graph, False
    return file.graph(Requantize.DATA), True


class _File:
    """A model's file, which says how it is quantized; what is made of it is made once.

    Parameters are those of :func:`load_for_quantizing`.
    """

    def __init__(
        self, path: Path, input_shapes: Sizes | None, input_values: Values | None,
        libraries: Sequence[str | pathlib.Path],
    ) -> None:  # fmt: skip
        self._path, self._sizes = pathlib.Path(path), input_shapes or {}
        self._values, self._libraries = input_values, libraries
        self._program: ProgramAsOnnx | None = None

    @functools.cached_property
    def format(self) -> Format:
        """What the file is."""
        return format_of(self._path)

    def graph(self, mode: Requantize = Requantize.NO, *, any_scale: bool = False) -> FloatGraph:
        """Return its graph, as :func:`opendpu.frontend.load_model` makes it."""
        if self._program is not None:
            return self._program.graph(self._sizes, requantize=mode, any_scale=any_scale)
        return load_model(
            self._path, self._sizes, input_values=self._values, libraries=self._libraries,
            requantize=mode, any_scale=any_scale, real_ports=True,
        )  # fmt: skip

    def has_other_scales(self) -> bool:
        """Return whether it is quantized with scales that are not the DPU's."""
        if self.format is Format.TFLITE:
            from opendpu.frontend import tflite

            return tflite.has_other_scales(os.fspath(self._path))
        proto, constants = self._onnx
        return has_other_scales(proto.graph.node, constants)

    def input_ranges(self) -> dict[str, tuple[float, float]]:
        """Return what it says of the ranges of its inputs, and maybe of other tensors."""
        if self.format is Format.TFLITE:
            from opendpu.frontend import tflite

            return tflite.input_ranges(os.fspath(self._path))
        proto, constants = self._onnx
        return quantized_ranges(proto.graph.node, constants)

    @functools.cached_property
    def _onnx(self) -> tuple[onnx.ModelProto, dict[str, Array]]:
        """The model as ONNX, its quantizers pairs of ONNX's operators, and its weights."""
        model: AnyModel = self._path
        if self.format is Format.PYTORCH:
            from opendpu.frontend.pytorch import program_as_onnx

            self._program = program_as_onnx(self._path)
            model = self._program.proto
        elif self.format is not Format.ONNX:
            return onnx.ModelProto(), {}
        _, proto, folder = read_model(model)
        proto = with_plain_operands(with_bytes(without_qonnx(proto)))
        proto = with_real_ports(expanded(proto))
        if not any(node.op_type in DEQUANTIZE for node in proto.graph.node):
            return proto, {}
        constants, _ = constants_of(proto.graph, folder)
        return proto, constants


def _loss(
    reference: FloatGraph, found: Quantized, ranges: Mapping[str, tuple[float, float]]
) -> Report:
    """Measure a quantized graph against the real numbers of its file, on random inputs."""
    random = np.random.default_rng(SEED)
    samples = {}
    for node in reference:
        if node.kind == "data":
            low, high = ranges.get(node.name, (-1.0, 1.0))
            shape = (SAMPLES, *node.shape[1:]) if node.shape[0] == 1 else (SAMPLES, *node.shape)
            samples[node.name] = random.uniform(low, high, shape).astype(node.type.dtype)
    pairs = list(zip(reference.outputs, found.graph.outputs, strict=True))
    ratios = sqnr(
        reference, found.graph, pairs, calibration_samples(reference, samples), batch=SAMPLES
    )
    report = Report(outputs_sqnr=ratios, measured_samples=SAMPLES)
    for name, ratio in ratios.items():
        cost = "nothing" if ratio is None else f"{ratio:.1f} dB signal to noise"
        report.note(
            f"requantized without samples, from the ranges in the file; output {name}: {cost} "
            f"against the file's real numbers, on {SAMPLES} random inputs (samples do better: "
            "--calib)"
        )
    return report
