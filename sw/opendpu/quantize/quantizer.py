# SPDX-License-Identifier: Apache-2.0
"""The quantizer: substitute, fold, calibrate, choose fix points, insert ``fix`` ops, correct."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from opendpu.ir import FloatGraph, QuantizedGraph
from opendpu.quantize.calibrate import observe
from opendpu.quantize.complete import is_quantized
from opendpu.quantize.config import ROLES, SUBSTITUTIONS, QuantizeConfig, check_choice
from opendpu.quantize.corrections.bias import add_biases, correct_biases, sample_count
from opendpu.quantize.corrections.refine import refine
from opendpu.quantize.finetune import correct_weights, finetune
from opendpu.quantize.placement.groups import find_groups
from opendpu.quantize.placement.insert import insert
from opendpu.quantize.placement.scope import floating_ops
from opendpu.quantize.report import Report, sqnr_of
from opendpu.quantize.samples import Calibration, Samples, calibration_samples, suspicions
from opendpu.quantize.scales.choose import choose_fix_points
from opendpu.quantize.scales.shifts import make_legal, weight_fix_points
from opendpu.quantize.transforms.approximate import approximate
from opendpu.quantize.transforms.equalize import equalize
from opendpu.quantize.transforms.fold import fold
from opendpu.quantize.transforms.permute import permute
from opendpu.quantize.transforms.rewrite import rewrite
from opendpu.quantize.transforms.substitute import substitutable, substitute
from opendpu_arch.errors import UnsupportedError


@dataclasses.dataclass(frozen=True)
class Quantized:
    """A quantized graph, and what the quantizer did; nothing for models that came quantized.

    ``reference`` is the float graph that was quantized, after all transformations: its ops have
    the same names.
    """

    graph: QuantizedGraph
    report: Report | None
    reference: FloatGraph | None = None


def _nowhere(text: str) -> None:
    """Show nothing of what is going on."""


def quantize(
    graph: FloatGraph,
    calib: Calibration,
    config: QuantizeConfig | None = None,
    *,
    show: Callable[[str], None] = _nowhere,
    **options: Any,
) -> QuantizedGraph:
    """Quantize a float graph; by default to signed 8 bits with power-of-two scales.

    As :func:`quantize_with_report`, whose parameters and errors these are.

    Returns
    -------
    The graph in the form of AMD's quantizers: float tensors, a ``fix`` op called ``<op>_fix``
    behind every quantized result, constants on their grid. What only the CPU can compute stays
    float, see :mod:`opendpu.quantize.placement.scope`.
    """
    return quantize_with_report(graph, calib, config, show=show, **options).graph


def quantize_with_report(
    graph: FloatGraph,
    calib: Calibration,
    config: QuantizeConfig | None = None,
    *,
    show: Callable[[str], None] = _nowhere,
    **options: Any,
) -> Quantized:
    """Quantize a float graph, and say what was done, what it cost and what to try.

    Parameters
    ----------
    graph
        Float graph, for example of :func:`opendpu.frontend.load_onnx`.
    calib
        Calibration samples: :class:`~opendpu.quantize.samples.Samples`, arrays by input name with
        the batch in front, or an iterable of such batches. Each array is in the shape of the
        graph's ``data`` op, or, for inputs named in ``onnx_order``, in the shape of the ONNX
        model. 100 to 1000 samples are enough.
    config
        What to do; the default is what the DPU runs.
    show
        Told what is going on.
    options
        Fields of the configuration that differ from ``config``; ``method`` is that of inputs,
        weights and activations.

    Raises
    ------
    TensorError
        Calibration data that is missing, empty, unknown, not finite, too large, or of the wrong
        shape, or that gives results that are not finite.
    UnsupportedError
        An unknown method or option, an op that cannot be evaluated, or a graph that is quantized
        already.
    GraphError
        Ranges so far apart that the DPU's shifts cannot bridge them.
    """
    config = _configured(config or QuantizeConfig(), options)
    _check_supported(config)
    method = config.activation.method
    if is_quantized(graph):
        raise UnsupportedError(f"graph {graph.name!r} is quantized already; compile it as it is")
    samples = calibration_samples(graph, calib)
    report = Report(samples=samples.count, notes=suspicions(samples))
    graph = graph.copy()
    _substituted(
        graph, samples, config.activation_substitution, report, batch=config.batch, show=show
    )
    fold(graph)
    approximate(graph)
    rewrite(graph)
    if config.cross_layer:
        equalize(graph)
    permute(graph)  # after that, so that weights of 0 and 1 stay such
    floating = floating_ops(graph)
    groups = find_groups(graph, floating)
    report.floating = [node.name for node in graph if node.name in floating]
    for name, reason in floating.items():
        graph[name].reason = graph[name].reason or reason
    if config.bias_correction:
        add_biases(graph, groups.results)
    layers = list(groups.results) if config.bias_correction else []
    count = min(samples.count, sample_count(graph))
    observed = observe(
        graph, groups, samples, layers=layers, mean_samples=count, method=method,
        batch=config.batch, show=show,
    )  # fmt: skip
    chosen = choose_fix_points(groups, observed, method)
    weights = weight_fix_points(graph, groups, method)
    if config.refinement:
        chosen = refine(
            graph, groups, chosen, samples, weights, observed, layers=layers, show=show,
            note=report.note,
        )  # fmt: skip
    constants = make_legal(graph, groups, chosen, weights)
    result = insert(graph, chosen | constants)
    if config.bias_correction:
        show("correcting biases")
        correct_biases(result, observed.means, samples, count)
    if config.weight_correction:
        correct_weights(result, graph, samples, batch=config.batch, seed=config.seed, show=show)
    if config.finetune is not None:
        finetune(result, graph, samples, config.finetune, seed=config.seed, show=show)
    return Quantized(result, report, graph)


def _configured(config: QuantizeConfig, options: Mapping[str, Any]) -> QuantizeConfig:
    """Return a configuration with other values for some fields."""
    fields = {field.name for field in dataclasses.fields(config)}
    unknown = sorted(set(options) - fields - {"method"})
    if unknown:
        raise UnsupportedError(
            f"option {unknown[0]!r} is unknown; options are: method, {', '.join(sorted(fields))}"
        )
    changed = dict(options)
    method = changed.pop("method", None)
    if method is not None:
        made = QuantizeConfig.with_method(method)
        changed = {"input": made.input, "weights": made.weights, "activation": made.activation,
                   **changed}  # fmt: skip
    return dataclasses.replace(config, **changed)


_TODAY = ("minmse", "diffs", "nonoverflow")


def _check_supported(config: QuantizeConfig) -> None:
    """Raise UnsupportedError for what the engine cannot do yet."""
    expected = QuantizeConfig.with_method(config.activation.method)
    for role in ROLES:
        if getattr(config, role) != getattr(expected, role) or config.overrides:
            raise UnsupportedError(f"the configuration of {role} is not supported yet")
    if config.activation.method not in _TODAY or config.relu6_to_relu:
        raise UnsupportedError(f"method {config.activation.method!r} is not supported yet")


def check_substitution(how: str) -> None:
    """Raise UnsupportedError if there is no such ``activation_substitution``."""
    check_choice("activation substitution", how, SUBSTITUTIONS)


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
    if how == "none":
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
