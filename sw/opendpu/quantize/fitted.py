# SPDX-License-Identifier: Apache-2.0
"""Samples that a network is fitted to, and others, on which it is measured."""

from opendpu.ir import Graph
from opendpu.quantize.config import QuantizeConfig
from opendpu.quantize.corrections.bias import sample_count
from opendpu.quantize.corrections.trials import ENOUGH, fitted_count
from opendpu.quantize.finetune.fitting import correction_samples
from opendpu.quantize.noise import SAMPLES
from opendpu.quantize.report import Report
from opendpu.quantize.samples import Samples

KEPT = 3
"""Of few samples, one in so many is only measured on, up to as many as are measured."""


def usable(samples: Samples) -> Samples:
    """Return the samples, from the first on, that a network may be fitted to.

    By scales that are judged by results, corrections and finetuning: not by the ranges of
    tensors, which all samples tell. Networks come far nearer to the float one on few samples that
    they were fitted to than on others, so that some of few are left for the report.
    """
    if samples.count >= ENOUGH + SAMPLES:
        return samples
    return samples.first(samples.count - min(SAMPLES, samples.count // KEPT))


def fitted_samples(graph: Graph, samples: Samples, config: QuantizeConfig) -> int:
    """Return how many samples, from the first on, a deployable network is fitted to at most.

    ``graph`` is the float one, after all transformations.
    """
    given = usable(samples)
    counts = [0]
    if config.refinement:
        counts.append(fitted_count(given))
    if config.bias_correction:
        counts.append(sample_count(graph))
    if config.weight_correction:
        counts.append(correction_samples(graph, given))
    if config.finetune is not None:
        counts.append(config.finetune.samples or given.count)
    return min(given.count, max(counts))


def first_measured(report: Report, samples: Samples, fitted: int) -> int:
    """Return the first of the samples to measure on, and say in the report which these are.

    The last ones, where nothing was ``fitted`` to them; else the first ones.
    """
    kept = samples.count - usable(samples).count
    left = kept or SAMPLES
    report.measured_apart = not fitted or samples.count - fitted >= left
    apart = fitted and report.measured_apart
    report.measured_samples = min(samples.count, left if apart else SAMPLES)
    return samples.count - report.measured_samples if apart else 0
