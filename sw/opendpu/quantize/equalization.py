# SPDX-License-Identifier: Apache-2.0
"""Which channels are equalized: all that can be, where that makes the quantized network better.

Two simple layers in a row always are. Wider sets, of sums, concatenations, several readers or
ReLU6, also raise the ranges of what they share; so the network is quantized both ways on a few
samples, and they are kept where its results come nearer to those of the float network.
"""

import numpy as np

from opendpu.ir import Graph
from opendpu.ir.types import FLOAT32
from opendpu.quantize.assign import deployable_scales, free_scales
from opendpu.quantize.calibrate import observe
from opendpu.quantize.config import QuantizeConfig
from opendpu.quantize.corrections.bias import add_biases, correct_biases
from opendpu.quantize.executor import evaluate
from opendpu.quantize.measure import sqnr
from opendpu.quantize.observers.ranges import MinMax
from opendpu.quantize.placement.insert import insert, with_plain_constants
from opendpu.quantize.placement.place import place
from opendpu.quantize.progress import Progress
from opendpu.quantize.report import Report
from opendpu.quantize.samples import Samples
from opendpu.quantize.transforms.channel_sets import find_sets
from opendpu.quantize.transforms.equalize import bounded_ops, equalize, is_pair
from opendpu.quantize.transforms.permute import permute
from opendpu_arch.errors import GraphError

TRIAL_SAMPLES = 4
"""Samples of the trials."""

RANGE_SAMPLES = 16
"""Samples that tell which channels reach the end of a ReLU6."""

GAIN_DB = 0.3
"""What wider sets must gain over all outputs in the mean to be kept."""


def equalize_channels(
    graph: Graph, samples: Samples, config: QuantizeConfig, report: Report, progress: Progress
) -> None:
    """Equalize channels between layers, in place; write into the report what took part."""
    wide = [one for one in find_sets(graph) if not one.reason and not is_pair(one)]
    if not wide:
        done = equalize(graph)
    else:
        progress.say("equalizing channels")
        largest = _largest(graph, samples, config.batch)
        simple, both = graph.copy(), graph.copy()
        equalize(simple, chosen=is_pair)
        equalize(both, largest)
        better = _quality(both, samples, config) > _quality(simple, samples, config) + GAIN_DB
        done = equalize(graph, largest, chosen=(lambda one: True) if better else is_pair)
        report.note(
            f"equalization of {len(wide)} sets of channels across sums, concatenations, several "
            f"readers or ReLU6 was {'kept' if better else 'not kept'}: tried on "
            f"{min(samples.count, TRIAL_SAMPLES)} samples, the results came "
            f"{'nearer to' if better else 'no nearer to'} those of the float network"
        )
    report.equalized, report.not_equalized = done.layers, done.skipped


def _largest(graph: Graph, samples: Samples, batch: int) -> dict[str, np.ndarray]:
    """Return the largest value of each channel that ReLU6 ops get."""
    source = {name: graph[name].inputs["input"][0] for name in bounded_ops(graph)}
    seen = {name: MinMax(channels=True) for name in source}
    kept = list(dict.fromkeys(source.values()))
    for _, results in evaluate(graph, kept, samples, batch=batch, stop=RANGE_SAMPLES):
        for name, watch in seen.items():
            watch.add(results[source[name]])
    return {n: np.asarray(w.high, np.float64) for n, w in seen.items() if w.high is not None}


def _quality(graph: Graph, samples: Samples, config: QuantizeConfig) -> float:
    """Return the signal to noise of the outputs of a network that is quantized in haste, in dB."""
    samples, graph = samples.first(TRIAL_SAMPLES), graph.copy()
    permute(graph)
    placement = place(graph, config)
    groups, specs = placement.groups, placement.specs
    if config.bias_correction:
        add_biases(graph, groups.results)
    silent = Progress(lambda text: None)
    observed = observe(
        graph, groups, specs.results, samples,
        layers=list(groups.results) if config.bias_correction else [],
        mean_samples=samples.count, batch=config.batch, progress=silent,
    )  # fmt: skip
    scales = free_scales if config.deployable() else deployable_scales
    try:
        made = insert(graph, scales(graph, groups, specs, observed))
    except GraphError:
        return -np.inf
    if config.bias_correction:
        correct_biases(made, observed.means, samples, samples.count, silent)
    pairs = [
        (name, other)
        for name, other in zip(graph.outputs, made.outputs, strict=True)
        if graph[name].type.dtype == FLOAT32
    ]
    found = sqnr(graph, with_plain_constants(made), pairs, samples, batch=config.batch)
    return float(np.mean([200.0 if ratio is None else ratio for ratio in found.values()] or [0.0]))
