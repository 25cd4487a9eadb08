# SPDX-License-Identifier: Apache-2.0
"""The quantizer: substitute, fold, calibrate, choose fix points, insert ``fix`` ops, correct."""

import dataclasses
from collections.abc import Callable, Mapping

from opendpu.ir import Array, FloatGraph, QuantizedGraph
from opendpu.quantize.approximate import approximate
from opendpu.quantize.calibrate import METHODS, choose_fix_points, observe
from opendpu.quantize.complete import is_quantized
from opendpu.quantize.correct import add_biases, correct_biases, sample_count
from opendpu.quantize.equalize import equalize
from opendpu.quantize.fold import fold
from opendpu.quantize.groups import find_groups
from opendpu.quantize.insert import insert
from opendpu.quantize.permute import permute
from opendpu.quantize.refine import refine
from opendpu.quantize.report import Report, sqnr_of
from opendpu.quantize.rewrite import rewrite
from opendpu.quantize.samples import Samples, calibration_samples, suspicions
from opendpu.quantize.scope import floating_ops
from opendpu.quantize.shifts import make_legal, weight_fix_points
from opendpu.quantize.substitute import SUBSTITUTIONS, substitutable, substitute
from opendpu_arch.errors import UnsupportedError


@dataclasses.dataclass(frozen=True)
class Quantized:
    """A quantized graph, and what the quantizer did; nothing for models that came quantized."""

    graph: QuantizedGraph
    report: Report | None


def _nowhere(text: str) -> None:
    """Show nothing of what is going on."""


def quantize(
    graph: FloatGraph,
    calib: Mapping[str, Array],
    *,
    method: str = "minmse",
    cross_layer: bool = True,
    bias_correction: bool = True,
    refinement: bool = True,
    activation_substitution: str = "none",
    batch: int = 32,
    show: Callable[[str], None] = _nowhere,
) -> QuantizedGraph:
    """Quantize a float graph to signed 8 bits with power-of-two scales.

    Parameters
    ----------
    graph
        Float graph, for example of :func:`opendpu.frontend.load_onnx`.
    calib
        Calibration samples by input name, batch in front: each in the shape of the graph's
        ``data`` op, or, for inputs named in ``onnx_order``, in the shape of the ONNX model. 100 to
        1000 samples are enough.
    method
        ``minmse`` (least squared error over all data), ``diffs`` (least squared error a batch,
        commonest fix point) or ``nonoverflow``.
    cross_layer
        Whether to equalize the ranges of channels between layers joined by a ReLU or the like.
    bias_correction
        Whether to shift biases so that quantization moves no channel's mean, measured on at most
        ``correct.SAMPLES`` samples.
    refinement
        Whether to try fix points next to the chosen ones and keep what makes the results of the
        whole network better, within a bound on the work.
    activation_substitution
        ``none``, or ``hard``: sigmoid and swish become hard ones where the DPU then computes them.
    batch
        Samples that are evaluated at a time at most, and that have one vote in ``diffs``.
    show
        Told what is going on.

    Returns
    -------
    The graph in the form of AMD's quantizers: float tensors, a ``fix`` op called ``<op>_fix``
    behind every quantized result, constants on their grid. What only the CPU can compute stays
    float, see :mod:`opendpu.quantize.scope`.

    Raises
    ------
    TensorError
        Calibration data that is missing, empty, unknown, not finite, too large, or of the wrong
        shape, or that gives results that are not finite.
    UnsupportedError
        An unknown method, an op that cannot be evaluated, or a graph that is quantized already.
    GraphError
        Ranges so far apart that the DPU's shifts cannot bridge them.
    """
    return quantize_with_report(
        graph, calib, method=method, cross_layer=cross_layer, bias_correction=bias_correction,
        refinement=refinement, activation_substitution=activation_substitution, batch=batch,
        show=show,
    ).graph  # fmt: skip


def quantize_with_report(
    graph: FloatGraph,
    calib: Mapping[str, Array],
    *,
    method: str = "minmse",
    cross_layer: bool = True,
    bias_correction: bool = True,
    refinement: bool = True,
    activation_substitution: str = "none",
    batch: int = 32,
    show: Callable[[str], None] = _nowhere,
) -> Quantized:
    """Quantize as :func:`quantize` does, and say what was done, what it cost and what to try."""
    _check_choice("calibration method", method, METHODS)
    check_substitution(activation_substitution)
    if is_quantized(graph):
        raise UnsupportedError(f"graph {graph.name!r} is quantized already; compile it as it is")
    samples = calibration_samples(graph, calib)
    report = Report(samples=samples.count, notes=suspicions(samples))
    graph = graph.copy()
    _substituted(graph, samples, activation_substitution, report, batch=batch, show=show)
    fold(graph)
    approximate(graph)
    rewrite(graph)
    if cross_layer:
        equalize(graph)
    permute(graph)  # after that, so that weights of 0 and 1 stay such
    floating = floating_ops(graph)
    groups = find_groups(graph, floating)
    report.floating = [node.name for node in graph if node.name in floating]
    for name, reason in floating.items():
        graph[name].reason = graph[name].reason or reason
    if bias_correction:
        add_biases(graph, groups.results)
    layers = list(groups.results) if bias_correction else []
    count = min(samples.count, sample_count(graph))
    observed = observe(
        graph, groups, samples, layers=layers, mean_samples=count, method=method, batch=batch,
        show=show,
    )  # fmt: skip
    chosen = choose_fix_points(groups, observed, method)
    weights = weight_fix_points(graph, groups, method)
    if refinement:
        chosen = refine(
            graph, groups, chosen, samples, weights, observed, layers=layers, show=show,
            note=report.note,
        )  # fmt: skip
    constants = make_legal(graph, groups, chosen, weights)
    result = insert(graph, chosen | constants)
    if bias_correction:
        show("correcting biases")
        correct_biases(result, observed.means, samples, count)
    return Quantized(result, report)


def check_substitution(how: str) -> None:
    """Raise UnsupportedError if there is no such ``activation_substitution``."""
    _check_choice("activation substitution", how, tuple(SUBSTITUTIONS))


def _check_choice(what: str, given: str, allowed: tuple[str, ...]) -> None:
    """Raise UnsupportedError if a word is none of those allowed."""
    if given not in allowed:
        raise UnsupportedError(f"{what} {given!r} is unknown; choose one of {', '.join(allowed)}")


def _substituted(
    graph: FloatGraph,
    samples: Samples,
    how: str,
    report: Report,
    *,
    batch: int,
    show: Callable[[str], None],
) -> None:
    """Replace activations, in place, and report what it cost; or propose it."""
    names = substitutable(graph)
    if not names:
        return
    if SUBSTITUTIONS[how] is None:
        report.note(
            f"sigmoid and swish split the network between DPU and CPU ({len(names)} ops); "
            "activation substitution 'hard' would put them on the DPU"
        )
        return
    before = graph.copy()
    substitute(graph, how, names)
    report.substituted = names
    show("measuring what substituted activations cost")
    report.substitution_sqnr = sqnr_of(before, graph, samples, batch=batch)
