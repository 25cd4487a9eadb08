# SPDX-License-Identifier: Apache-2.0
"""The quantizer: substitute, fold, calibrate, choose fix points, insert ``fix`` ops, correct."""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

from opendpu.ir import NOTES, FloatGraph, Graph, QuantizedGraph
from opendpu.quantize.assign import candidates, free_scales
from opendpu.quantize.calibrate import observe
from opendpu.quantize.complete import is_quantized
from opendpu.quantize.config import SUBSTITUTIONS, QuantizeConfig
from opendpu.quantize.corrected import Correction
from opendpu.quantize.corrections.bias import add_biases, sample_count
from opendpu.quantize.corrections.refine import refine
from opendpu.quantize.corrections.trials import kept_ends
from opendpu.quantize.equalization import equalize_channels
from opendpu.quantize.finetune import finetune
from opendpu.quantize.fitted import fitted_samples
from opendpu.quantize.journal import NOTHING, Journal, Path, opened
from opendpu.quantize.measure import measure
from opendpu.quantize.placement.groups import Demands
from opendpu.quantize.placement.logarithms import wide_arguments
from opendpu.quantize.placement.place import place
from opendpu.quantize.placement.specs import unmatched
from opendpu.quantize.placement.tables import has_tables
from opendpu.quantize.progress import Progress, silent
from opendpu.quantize.remarks import note_narrow, note_not_deployable
from opendpu.quantize.report import Report
from opendpu.quantize.samples import Calibration, Samples, calibration_samples, suspicions
from opendpu.quantize.substitution import substitute_activations
from opendpu.quantize.tensor_spec import check_choice
from opendpu.quantize.threads import one_blas_thread
from opendpu.quantize.transforms.approximate import approximate
from opendpu.quantize.transforms.bounds import bound
from opendpu.quantize.transforms.centre import centre
from opendpu.quantize.transforms.extrema import extrema
from opendpu.quantize.transforms.fold import fold
from opendpu.quantize.transforms.inner_batch import lift
from opendpu.quantize.transforms.inner_samples import take_apart
from opendpu.quantize.transforms.interpolate import interpolate
from opendpu.quantize.transforms.permute import permute
from opendpu.quantize.transforms.rearrange import rearrange
from opendpu.quantize.transforms.reductions import reduce_pixels
from opendpu.quantize.transforms.repeat import repeat
from opendpu.quantize.transforms.rewrite import rewrite
from opendpu.quantize.transforms.spatial import attend
from opendpu.quantize.transforms.spread import spread
from opendpu.quantize.transforms.substitute import relu6_to_relu
from opendpu.quantize.transforms.subtract import subtract
from opendpu.quantize.transforms.tabulate import tabulate
from opendpu.quantize.transforms.upsample import upsample
from opendpu.quantize.transforms.views import activations_first
from opendpu.quantize.transforms.weighted_sums import weighted_sums
from opendpu.quantize.transforms.wide_kernel import split_wide_kernels
from opendpu.quantize.transforms.wide_pad import pad_outside
from opendpu.quantize.transforms.wide_stride import split_wide_strides
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


def quantize(
    graph: FloatGraph,
    calib: Calibration,
    config: QuantizeConfig | None = None,
    *,
    show: Callable[[str], None] = silent,
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
    with one_blas_thread():
        return _quantized(graph, calib, config, show=show, **options).graph


@one_blas_thread()
def quantize_with_report(
    graph: FloatGraph,
    calib: Calibration,
    config: QuantizeConfig | None = None,
    *,
    show: Callable[[str], None] = silent,
    journal: Path | None = None,
    measured: bool = True,
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
    journal
        A file for what is finished (:mod:`opendpu.quantize.journal`): a run of the same that was
        interrupted goes on with it.
    measured
        Whether the report says what it cost, which takes a while.
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
    ModelFormatError
        The journal is damaged, or of another model, other data or options.
    """
    if journal is None:
        return _quantized(graph, calib, config, show=show, measured=measured, **options)
    whole = _configured(config or QuantizeConfig(), options)
    samples = calibration_samples(graph, calib)
    with opened(journal, graph, samples, whole) as kept:
        return _quantized(graph, samples, whole, show=show, measured=measured, journal=kept)


def _quantized(
    graph: FloatGraph,
    calib: Calibration,
    config: QuantizeConfig | None,
    *,
    show: Callable[[str], None],
    measured: bool = False,
    journal: Journal = NOTHING,
    **options: Any,
) -> Quantized:
    """Quantize; what it cost is in the report only if that is ``measured``, which takes a while."""
    config = _configured(config or QuantizeConfig(), options)
    if is_quantized(graph):
        raise UnsupportedError(f"graph {graph.name!r} is quantized already; compile it as it is")
    progress = Progress(show)
    samples = calibration_samples(graph, calib)
    notes = [*graph.attrs.get(NOTES, ()), *suspicions(samples)]
    report = Report(samples=samples.count, notes=notes, obstacles=config.deployable())
    reference, graph = graph, graph.copy()
    demands = _transform(graph, samples, config, report, progress)
    precise = wide_arguments(graph, samples)
    placement = place(graph, config, demands, precise)
    changed = split_wide_strides(graph, placement.floating)
    changed += split_wide_kernels(graph, placement.floating, config.target)
    if pad_outside(graph, placement.floating) or changed:
        placement = place(graph, config, demands, precise)
    groups, specs = placement.groups, placement.specs
    for rule in unmatched(config, (reference, graph)):
        report.note(f"no layer is called as a rule says: {', '.join((*rule.kinds, *rule.names))}")
    report.floating = [node.name for node in graph if node.name in placement.floating]
    for name, reason in placement.floating.items():
        graph[name].reason = graph[name].reason or reason
    if config.bias_correction:
        add_biases(graph, groups.results)
    layers = list(groups.results) if config.bias_correction else []
    count = min(samples.count, sample_count(graph))
    refines = config.refinement and not report.obstacles
    observed = observe(
        graph, groups, specs.results, samples, layers=layers, mean_samples=count,
        batch=config.batch, progress=progress, ends=kept_ends(graph, groups, count) if refines
        else (),
    )  # fmt: skip
    correction = Correction(graph, samples, config, observed, progress, show, journal)
    if report.obstacles:
        note_not_deployable(config, report)
        result = correction.biases(free_scales(graph, groups, specs, observed))
    else:
        note_narrow(config, report)
        refined = functools.partial(
            refine, graph, groups, samples, specs, observed, layers=layers, progress=progress,
        )  # fmt: skip
        refined = functools.partial(journal.fix_points, "refining", refined, report.note)
        ways = candidates(graph, groups, specs, observed, refined if config.refinement else None)
        result = correction.best(ways, report.note)
        if config.finetune is not None:
            report.finetuned = True
            training = functools.partial(
                finetune, result, graph, samples, config.finetune, seed=config.seed, show=show,
                journal=journal,
            )  # fmt: skip
            journal.changing("finetuning", result, lambda tell: training(note=tell), report.note)
    if not measured:
        return Quantized(result, report, graph)
    progress.say("measuring what quantization costs")
    fitted = 0 if report.obstacles else fitted_samples(graph, samples, config)
    measure(
        report, reference, graph, result, groups, observed, samples, batch=config.batch,
        fitted=fitted,
    )  # fmt: skip
    return Quantized(result, report, graph)


def _transform(
    graph: Graph, samples: Samples, config: QuantizeConfig, report: Report, progress: Progress
) -> Demands:
    """Change a float graph, in place, to one that quantizes better; say what was done.

    Returns what some ops need of their scales.
    """
    if config.relu6_to_relu:
        report.note(f"{relu6_to_relu(graph)} ReLU6 became ReLU")
    substitute_activations(graph, samples, config, report, progress)
    apart = take_apart(graph)
    if has_tables(config.target):
        rearrange(graph)
        lift(graph)
        spread(graph)
        repeat(graph)
    elif apart:
        lift(graph)
    weighted_sums(graph)
    reduce_pixels(graph, sums=has_tables(config.target))
    centre(graph, samples)
    tabulated, demands = tabulate(graph, samples, config)
    report.tabulated = dict.fromkeys(tabulated)
    fold(graph)
    if not has_tables(config.target) and bound(graph):
        fold(graph)
    if extrema(graph) | subtract(graph):
        fold(graph)
    attend(graph, config, demands)
    activations_first(graph)
    approximate(graph, config.target)
    upsample(graph)
    interpolate(graph)
    rewrite(graph)
    if config.cross_layer:
        equalize_channels(graph, samples, config, report, progress)
    permute(graph)  # after that, so that weights of 0 and 1 stay such
    return demands


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


def check_substitution(how: str) -> None:
    """Raise UnsupportedError if there is no such ``activation_substitution``."""
    check_choice("activation substitution", how, SUBSTITUTIONS)
