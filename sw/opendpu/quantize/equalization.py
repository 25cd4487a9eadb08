# SPDX-License-Identifier: Apache-2.0
"""Which channels are equalized: all that can be, where that makes the quantized network better.

Two simple layers in a row always are. Wider sets, of sums, concatenations, several readers or
ReLU6, also raise the ranges of what they share; so the network is quantized both ways on a few
samples, and they are kept where its results come nearer to those of the float network. Where every
output channel has a scale of its own, the ranges of the channels themselves are equalized.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from opendpu.ir import Array, Graph
from opendpu.ir.types import FLOAT32
from opendpu.quantize.assign import deployable_scales, free_scales
from opendpu.quantize.calibrate import observe
from opendpu.quantize.config import QuantizeConfig
from opendpu.quantize.corrections.bias import add_biases, correct_biases
from opendpu.quantize.executor import evaluate
from opendpu.quantize.noise import Energies
from opendpu.quantize.observers.ranges import MinMax
from opendpu.quantize.placement.insert import insert
from opendpu.quantize.placement.place import place
from opendpu.quantize.progress import Progress
from opendpu.quantize.reduced import with_largest, with_largest_below_zero
from opendpu.quantize.report import Report
from opendpu.quantize.samples import Samples
from opendpu.quantize.tensor_spec import has_channels
from opendpu.quantize.transforms.channel_sets import ChannelSet, find_sets
from opendpu.quantize.transforms.equalize import Factors, bounded_ops, equalize, is_pair
from opendpu.quantize.transforms.outliers import shrink_outliers
from opendpu.quantize.transforms.permute import permute
from opendpu_arch.errors import GraphError

TRIAL_SAMPLES = 4
"""Samples of the trials."""

RANGE_SAMPLES = 16
"""Samples that tell which channels reach the end of a ReLU6."""

GAIN_DB = 0.3
"""What wider sets must gain over all outputs in the mean to be kept."""

TINY = 1e-12
"""Least range that is told from none."""


def equalize_channels(
    graph: Graph, samples: Samples, config: QuantizeConfig, report: Report, progress: Progress
) -> None:
    """Equalize channels between layers, in place; write into the report what took part."""
    sets = [one for one in find_sets(graph) if not one.reason]
    wide = [one for one in sets if not is_pair(one)]
    limited = bounded_ops(graph)
    largest, ranges = _ranges(graph, limited, sets, samples, config.batch)
    given = ranges if has_channels(config.target) and not config.deployable() else None
    known: dict[bool, float] = {}
    if not wide:
        done = equalize(graph, ranges=given)
        better = False
    else:
        progress.say("equalizing channels")
        simple, both = graph.copy(), graph.copy()
        equalize(simple, ranges=given, chosen=is_pair)
        equalize(both, largest, ranges=given)
        known = {True: _quality(both, samples, config), False: _quality(simple, samples, config)}
        better = known[True] > known[False] + GAIN_DB
        done = equalize(
            graph, largest, ranges=given, chosen=(lambda one: True) if better else is_pair
        )
        report.note(
            f"equalization of {len(wide)} sets of channels across sums, concatenations, several "
            f"readers or ReLU6 was {'kept' if better else 'not kept'}: tried on "
            f"{min(samples.count, TRIAL_SAMPLES)} samples, the results came "
            f"{'nearer to' if better else 'no nearer to'} those of the float network"
        )
    report.equalized, report.not_equalized = done.layers, done.skipped
    scaled = {name: ranges[name] * done.factors.get(name, 1.0) for name in ranges}
    _outliers(graph, samples, config, report, progress, scaled, known.get(better))


def _outliers(
    graph: Graph,
    samples: Samples,
    config: QuantizeConfig,
    report: Report,
    progress: Progress,
    ranges: Mapping[str, Factors],
    quality: float | None,
) -> None:
    """Shrink channels whose values are far larger than others', in place, where that helps.

    ``ranges`` are those of the channels that layers read, ``quality`` is that of the graph where it
    is known.
    """
    sets = [one for one in find_sets(graph) if not one.reason and not one.bounded]
    made = graph.copy()
    layers = shrink_outliers(made, sets, ranges)
    if not layers:
        return
    progress.say("looking at channels with large values")
    before = _quality(graph, samples, config) if quality is None else quality
    better = _quality(made, samples, config) > before + GAIN_DB
    if better:
        shrink_outliers(graph, sets, ranges)
    report.note(
        f"channels with values far larger than those beside them were "
        f"{'made smaller' if better else 'left as they are'} in {len(layers)} layers, for example "
        f"{layers[0]!r}: tried on {min(samples.count, TRIAL_SAMPLES)} samples, the results came "
        f"{'nearer to' if better else 'no nearer to'} those of the float network"
    )


def _ranges(
    graph: Graph, limited: Sequence[str], sets: Sequence[ChannelSet], samples: Samples, batch: int
) -> tuple[dict[str, Factors], dict[str, Factors]]:
    """Return the largest value of each channel that ReLU6 ops get, and magnitudes layers get.

    In one pass: of ``limited`` ops, and of those that read channels of some sets.
    """
    source = {name: graph[name].inputs["input"][0] for name in limited}
    read = {name: graph[name].inputs["input"][0] for one in sets for name, _ in one.consumers}
    high = with_largest(graph, [*source.values(), *read.values()])
    low = with_largest_below_zero(high.graph, read.values())
    watches = {op: MinMax(channels=True) for op in (*high.ops.values(), *low.ops.values())}
    for _, results in evaluate(low.graph, list(watches), samples, batch=batch, stop=RANGE_SAMPLES):
        for op, watch in watches.items():
            watch.add(results[op])
    most = {op: np.asarray(w.high, np.float64) for op, w in watches.items() if w.high is not None}
    magnitudes = {
        name: np.maximum(np.maximum(most[high.ops[n]], most.get(low.ops.get(n, ""), TINY)), TINY)
        for name, n in read.items() if high.ops[n] in most
    }  # fmt: skip
    return {k: most[high.ops[n]] for k, n in source.items() if high.ops[n] in most}, magnitudes


def _quality(graph: Graph, samples: Samples, config: QuantizeConfig) -> float:
    """Return the signal to noise of the outputs of a network that is quantized in haste, in dB."""
    samples, graph = samples.first(TRIAL_SAMPLES), graph.copy()
    permute(graph)
    placement = place(graph, config)
    groups, specs = placement.groups, placement.specs
    if config.bias_correction:
        add_biases(graph, groups.results)
    silent = Progress(lambda text: None)
    ends = [
        name for name in dict.fromkeys(graph.outputs)
        if graph[name].type.dtype == FLOAT32 and graph[name].value is None
    ]  # fmt: skip
    observed = observe(
        graph, groups, specs.results, samples,
        layers=list(groups.results) if config.bias_correction else [],
        mean_samples=samples.count, batch=config.batch, progress=silent, ends=ends,
    )  # fmt: skip
    scales = free_scales if config.deployable() else deployable_scales
    try:
        made = insert(graph, scales(graph, groups, specs, observed))
    except GraphError:
        return -np.inf
    outputs = zip(graph.outputs, made.outputs, strict=True)
    energies = Energies([pair for pair in outputs if pair[0] in ends])
    means = observed.means if config.bias_correction else {}
    others = [other for _, other in energies.pairs]
    found = correct_biases(made, means, samples, samples.count, silent, ends=others)
    wanted = {name: np.concatenate([one.ravel() for one in observed.results[name]])
              for name in ends}  # fmt: skip
    energies.add(wanted, _joined(found, others))
    ratios = energies.ratios().values()
    return float(np.mean([200.0 if ratio is None else ratio for ratio in ratios] or [0.0]))


def _joined(parts: Sequence[Mapping[str, Array]], names: Sequence[str]) -> dict[str, Array]:
    """Return the values of some results over all parts of the samples, in a row."""
    return {name: np.concatenate([part[name].ravel() for part in parts]) for name in names}
