# SPDX-License-Identifier: Apache-2.0
"""The quantizer: fold, calibrate, choose positions, insert ``fix`` ops."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from opendpu.ir import FloatGraph, Graph, QuantizedGraph
from opendpu.quantize.approximate import approximate
from opendpu.quantize.calibrate import choose_positions
from opendpu.quantize.complete import is_quantized
from opendpu.quantize.correct import add_biases, correct_biases
from opendpu.quantize.equalize import equalize
from opendpu.quantize.fold import fold
from opendpu.quantize.insert import insert
from opendpu.quantize.legality import settle, weight_positions
from opendpu.quantize.permute import permute
from opendpu.quantize.points import find_points
from opendpu.quantize.refine import refine
from opendpu.quantize.rewrite import rewrite
from opendpu_arch.errors import TensorError, UnsupportedError

METHODS = ("minmse", "diffs", "nonoverflow")
"""Ways to choose positions of activations."""

CORRECTION_SAMPLES = 128
"""Samples that bias correction looks at; they are in memory at the same time."""

Array = npt.NDArray[Any]


def quantize(
    graph: FloatGraph,
    calib: Mapping[str, Array],
    *,
    method: str = "minmse",
    cross_layer: bool = True,
    bias_correction: bool = True,
    refinement: bool = True,
    batch: int = 32,
) -> QuantizedGraph:
    """Quantize a float graph to signed 8 bits with power-of-two scales.

    Parameters
    ----------
    graph
        Float graph, for example of :func:`opendpu.frontend.load_onnx`.
    calib
        Calibration samples by input name, float, batch in front: each in the shape of the
        graph's ``data`` op, or, for inputs named in ``onnx_order``, in the shape of the ONNX
        model. 100 to 1000 samples are enough.
    method
        ``minmse`` (least squared error over all data), ``diffs`` (least squared error a batch,
        commonest position) or ``nonoverflow``.
    cross_layer
        Whether to equalize the ranges of channels between layers joined by a ReLU.
    bias_correction
        Whether to shift biases so that quantization moves no channel's mean, measured on at most
        ``CORRECTION_SAMPLES`` samples.
    refinement
        Whether to try positions next to the chosen ones and keep what makes the results of the
        whole network better. Takes the longest of all steps: two evaluations of up to 32 samples
        for each tensor; networks for which that would take minutes are left as they are.
    batch
        Samples that are evaluated at a time.

    Returns
    -------
    The graph in the form of AMD's quantizers: float tensors, a ``fix`` op called ``<op>_fix``
    behind every quantized result, constants on their grid, ``return_ops`` set.

    Raises
    ------
    TensorError
        Calibration data that is missing, empty, unknown, not finite, or of the wrong shape.
    UnsupportedError
        An unknown method, an op that cannot be evaluated, or a graph that is quantized already.
    GraphError
        Ranges so far apart that the DPU's shifts cannot bridge them.
    """
    if method not in METHODS:
        raise UnsupportedError(
            f"calibration method {method!r} is unknown; choose one of {', '.join(METHODS)}"
        )
    if is_quantized(graph):
        raise UnsupportedError(f"graph {graph.name!r} is quantized already; compile it as it is")
    graph = graph.copy()
    samples = calibration_samples(graph, calib)
    if mixes_samples(graph):
        batch, refinement = 1, False
    fold(graph)
    approximate(graph)
    rewrite(graph)
    if cross_layer:
        equalize(graph)
    permute(graph)  # after that, so that weights of 0 and 1 stay such
    if bias_correction:
        add_biases(graph)
    points = find_points(graph)
    positions = choose_positions(graph, points, samples, method=method, batch=batch)
    weights = weight_positions(graph, method)
    if refinement:
        positions = refine(graph, points, positions, samples, weights, correct=bias_correction)
    constants = settle(graph, points, positions, weights)
    result = insert(graph, positions | constants)
    if bias_correction:
        count = 1 if mixes_samples(graph) else CORRECTION_SAMPLES
        few = {name: array[:count] for name, array in samples.items()}
        correct_biases(graph, result, few)
    return result


def mixes_samples(graph: Graph) -> bool:
    """Return whether an op would join samples that are evaluated together."""
    for node in graph:
        axes = node.attrs.get("axis", ())
        first = {0, -len(node.shape)}
        joined = not first.isdisjoint(axes if isinstance(axes, list) else [axes])
        if node.kind == "matmul":
            joined = len(node.shape) < 3
        if node.kind == "transpose":
            joined = node.attrs["order"][0] != 0
        if node.value is None and (joined or node.shape[:1] != (1,)):
            return True
    return False


def calibration_samples(graph: Graph, calib: Mapping[str, Array]) -> dict[str, Array]:
    """Return the calibration data in the graph's layout; TensorError if it cannot be used."""
    order = graph.attrs.get("onnx_order", {})
    result = {}
    for name, data in calib.items():
        array = np.asarray(data)
        if array.dtype.kind not in "fiu":
            raise TensorError(
                f"calibration data of {name!r} has type {array.dtype}, but must be numbers"
            )
        if array.ndim < 1 or not array.shape[0]:
            raise TensorError(f"calibration data of {name!r} holds no samples")
        if not np.isfinite(array).all():
            raise TensorError(f"calibration data of {name!r} is not finite everywhere")
        node = graph.nodes.get(name)
        if name in order and node is not None and array.shape[1:] != node.shape[1:]:
            axes = order[name]
            if len(axes) == array.ndim:
                array = array.transpose(axes)
        result[name] = array.astype(np.float32)
    return result
