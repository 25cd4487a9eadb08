# SPDX-License-Identifier: Apache-2.0
"""Samples that a network is fitted to, and others, on which it is measured."""

from opendpu.quantize.config import QuantizeConfig
from opendpu.quantize.noise import SAMPLES
from opendpu.quantize.report import Report
from opendpu.quantize.samples import Samples

KEPT = 3
"""One in so many samples is measured on only, up to as many as are measured."""


def fitted_samples(samples: Samples) -> Samples:
    """Return the samples, from the first on, that a network is fitted to.

    By scales that are judged by results, corrections and finetuning: not by the ranges of
    tensors, which all samples tell. The others are for the report; there are none where there are
    fewer than :data:`KEPT` in all.
    """
    return samples.first(samples.count - min(SAMPLES, samples.count // KEPT))


def fits(config: QuantizeConfig) -> bool:
    """Return whether a network is fitted to samples."""
    return (
        config.refinement
        or config.bias_correction
        or config.weight_correction
        or config.finetune is not None
        or config.activation_substitution != "none"
    )


def first_measured(report: Report, samples: Samples, config: QuantizeConfig) -> int:
    """Return the first of the samples to measure on, and say in the report which these are.

    The last ones, that nothing was fitted to; all where there are too few for that.
    """
    kept = samples.count - fitted_samples(samples).count
    report.measured_apart = kept > 0 or not fits(config)
    report.measured_samples = kept if kept and fits(config) else min(samples.count, SAMPLES)
    return samples.count - report.measured_samples if report.measured_apart else 0
