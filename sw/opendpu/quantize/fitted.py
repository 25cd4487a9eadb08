# SPDX-License-Identifier: Apache-2.0
"""Samples that a network is fitted to, and others, on which it is measured."""

from opendpu.ir import Graph
from opendpu.quantize.config import QuantizeConfig
from opendpu.quantize.corrections.bias import sample_count
from opendpu.quantize.corrections.trials import fitted_count
from opendpu.quantize.finetune.fitting import correction_samples
from opendpu.quantize.noise import SAMPLES
from opendpu.quantize.report import Report
from opendpu.quantize.samples import Samples


def fitted_samples(graph: Graph, samples: Samples, config: QuantizeConfig) -> int:
    """Return how many samples, from the first on, a deployable network is fitted to at most.

    ``graph`` is the float one, after all transformations.

    By scales that are judged by results, corrections and finetuning: not by the ranges of
    tensors, which all samples tell.
    """
    counts = [0]
    if config.refinement:
        counts.append(fitted_count(samples))
    if config.bias_correction:
        counts.append(sample_count(graph))
    if config.weight_correction:
        counts.append(correction_samples(graph, samples))
    if config.finetune is not None:
        counts.append(config.finetune.samples or samples.count)
    return min(samples.count, max(counts))


def first_measured(report: Report, samples: Samples, fitted: int) -> int:
    """Return the first of the samples to measure on, and say in the report which these are.

    The last ones, where they are enough that nothing was ``fitted`` to; else the first ones.
    """
    report.measured_samples = min(samples.count, SAMPLES)
    report.measured_apart = not fitted or samples.count - fitted >= SAMPLES
    apart = fitted and report.measured_apart
    return samples.count - report.measured_samples if apart else 0
