# SPDX-License-Identifier: Apache-2.0
"""Models that are quantized with scales that the DPU does not compute with, and other scales."""

import os
import pathlib
import warnings
from collections.abc import Sequence

import numpy as np
import onnx

from opendpu.frontend import load_model
from opendpu.frontend.binding import Sizes
from opendpu.frontend.formats import Format, format_of
from opendpu.frontend.input_values import Values
from opendpu.frontend.model_file import constants_of, read_model
from opendpu.frontend.qlinear import expanded
from opendpu.frontend.qonnx import without_qonnx
from opendpu.frontend.requantizing import (
    Requantize,
    has_other_scales,
    left_quantizers,
    quantized_ranges,
)
from opendpu.frontend.tflite import input_ranges
from opendpu.ir import Array, FloatGraph, QuantizedGraph
from opendpu.ir.graph import has_any_scale
from opendpu.ops.quantizing import DEQUANTIZE
from opendpu.quantize import Quantized, Report, complete, is_quantized
from opendpu.quantize.noise import sqnr
from opendpu.quantize.samples import calibration_samples
from opendpu.quantize.transforms.fold import fold

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

    Raises
    ------
    ModelFormatError, UnsupportedError
        As of :func:`opendpu.frontend.load_model`.
    """
    mode = Requantize.chosen(wanted=requantize, has_samples=has_samples)
    graph = load_model(
        pathlib.Path(path), input_shapes or {}, input_values=input_values, libraries=libraries,
        requantize=mode, any_scale=any_scale and not requantize,
    )  # fmt: skip
    if not is_quantized(graph):
        return graph
    found = by_ranges(graph) if mode is Requantize.RANGES else complete(graph)
    if mode is not Requantize.RANGES or not _has_other_scales(
        path, input_shapes, input_values, libraries
    ):
        return Quantized(found, None)
    reference = load_model(
        pathlib.Path(path), input_shapes or {}, input_values=input_values, libraries=libraries,
        requantize=Requantize.DATA,
    )  # fmt: skip
    return Quantized(found, _loss(reference, Quantized(found, None), path), reference)


def warn_where_needless(
    path: Path,
    found: FloatGraph | Quantized,
    input_shapes: Sizes | None = None,
    libraries: Sequence[str | pathlib.Path] = (),
    *,
    input_values: Values | None = None,
) -> None:
    """Warn of a model whose scales may be changed, but which has none to change.

    ``found`` is what was loaded of it; parameters are those of :func:`load_for_quantizing`.
    """
    if isinstance(found, Quantized):
        needless = found.report is None  # it says what changing them costs
    else:
        is_xir = pathlib.Path(path).suffix == ".xmodel"
        needless = is_xir or not _has_other_scales(path, input_shapes, input_values, libraries)
    if needless:
        why = (
            "it is quantized with scales of the DPU" if isinstance(found, Quantized)
            else "it is a float model"
        )  # fmt: skip
        warnings.warn(
            f"{os.fspath(path)} has no scales to change (--requantize): {why}", stacklevel=3
        )


def by_ranges(graph: FloatGraph) -> QuantizedGraph:
    """Return the quantized graph of a model that was loaded with ``Requantize.RANGES``.

    Its weights are real numbers, into which normalizations are folded.
    """
    fold(graph)
    return complete(graph)


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
    tflite = format_of(os.fspath(path)) is Format.TFLITE
    graph = load_model(
        pathlib.Path(path), input_shapes, input_values=input_values, libraries=libraries,
        any_scale=any_scale or tflite,
    )  # fmt: skip
    if any_scale or not (has_any_scale(graph) if tflite else left_quantizers(graph)):
        return graph, False
    changed = load_model(
        pathlib.Path(path), input_shapes, input_values=input_values, libraries=libraries,
        requantize=Requantize.DATA,
    )  # fmt: skip
    return changed, True


def _has_other_scales(
    path: Path, input_shapes: Sizes | None, input_values: Values | None,
    libraries: Sequence[str | pathlib.Path],
) -> bool:  # fmt: skip
    """Return whether a file is quantized with scales that are not the DPU's."""
    kind = format_of(os.fspath(path))
    if kind is Format.ONNX:
        proto, constants = _onnx(path)
        return has_other_scales(proto.graph.node, constants)
    return kind is Format.TFLITE and has_any_scale(
        load_model(
            pathlib.Path(path),
            input_shapes,
            input_values=input_values,
            libraries=libraries,
            any_scale=True,
        )
    )


def _onnx(path: Path) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """Return an ONNX file whose quantizers are pairs of ONNX's operators, and its weights."""
    _, proto, folder = read_model(path)
    proto = expanded(without_qonnx(proto))
    if not any(node.op_type in DEQUANTIZE for node in proto.graph.node):
        return proto, {}
    constants, _ = constants_of(proto.graph, folder)
    return proto, constants


def _input_ranges(path: Path) -> dict[str, tuple[float, float]]:
    """Return what a file says of the ranges of its inputs, and maybe of other tensors."""
    if format_of(os.fspath(path)) is Format.TFLITE:
        return input_ranges(os.fspath(path))
    proto, constants = _onnx(path)
    return quantized_ranges(proto.graph.node, constants)


def _loss(reference: FloatGraph, found: Quantized, path: Path) -> Report:
    """Measure a quantized graph against the real numbers of its file, on random inputs."""
    random, ranges = np.random.default_rng(SEED), _input_ranges(path)
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
