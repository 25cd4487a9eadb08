# SPDX-License-Identifier: Apache-2.0
"""What a report notes of its own figures and settings: where much is lost, and what loses it."""

from collections.abc import Mapping

import numpy as np

from opendpu.ir import Graph
from opendpu.quantize.config import QuantizeConfig
from opendpu.quantize.observers.histogram import Histogram
from opendpu.quantize.observers.observed import Observed
from opendpu.quantize.placement.groups import ScaleGroups
from opendpu.quantize.report import Report
from opendpu.quantize.samples import Samples
from opendpu.quantize.scales.grid import FIX_POINTS
from opendpu.quantize.tensor_spec import DPU_BITS

LOW_SQNR = 15.0
"""Outputs with less, in dB, are worth a warning."""

NAMED = 3
"""Layers that a warning names."""

MUCH_SATURATION = 0.01
"""Part of a tensor's values whose saturation is worth a warning."""

FAR_OUT = 64.0
"""Values of an input that are so many times as large as 99.9 % of them look like mistakes."""

FEW_SAMPLES = 16
"""Samples that tell which channels of an input are small, and how large its values mostly are where
a histogram is too coarse for that."""

USUAL = 0.999
"""Part of an input's values that tells how large they mostly are."""

MANY_STEPS = 16
"""Steps that other channels take, where small ones are called lost."""


def remark(
    report: Report, graph: Graph, groups: ScaleGroups, observed: Observed, samples: Samples
) -> None:
    """Note what looks wrong: outputs with much noise and why, values that saturate or are far out.

    ``graph`` is the float one that was quantized; tensors, layers and outputs are in the report.
    """
    for name, ratio in report.outputs_sqnr.items():
        if ratio is not None and ratio < LOW_SQNR:
            report.note(
                f"output {name!r} has {ratio:.1f} dB of signal to quantization noise; most is lost "
                f"in {', '.join(map(repr, _most_harmful(report, graph)))}: finetuning, or more "
                "calibration samples, may help"
            )
    if any(ratio is not None and ratio < LOW_SQNR for ratio in report.outputs_sqnr.values()):
        _remark_vanished(report)
        _remark_channels(report, samples)
    saturated = {
        t.name: t.saturation
        for t in report.tensors
        if t.saturation > MUCH_SATURATION and t.name not in groups.meant
    }
    if saturated:
        worst = max(saturated, key=lambda name: saturated[name])
        report.note(
            f"{len(saturated)} tensors saturate for more than {MUCH_SATURATION:.0%} of their "
            f"values, most of all {worst!r} ({saturated[worst]:.1%})"
        )
    for name in groups.names:
        if graph[name].kind == "data":
            _remark_far_out(report, name, observed.histograms[name], samples)


def _remark_vanished(report: Report) -> None:
    """Note tensors of which nothing is left, because a step is more than twice their values."""
    gone = {
        t.name: (largest, t.scale[0])
        for t in report.tensors
        if t.role != "bias" and len(t.scale) == 1
        and 0 < (largest := max(-t.minimum, t.maximum)) < t.scale[0] / 2
    }  # fmt: skip
    if gone:
        name, (largest, step) = next(iter(gone.items()))
        report.note(
            f"{len(gone)} tensors are zero everywhere once they are quantized, for example "
            f"{name!r}, which reaches {largest:g} where a step is {step:g}: the finest is "
            f"2**-{FIX_POINTS[-1]}, and the DPU's shifts keep steps of layers near each other"
        )


def _remark_channels(report: Report, samples: Samples) -> None:
    """Note inputs with channels of which less than two steps are left beside others."""
    for tensor in report.tensors:
        if tensor.role != "input" or len(tensor.scale) != 1:
            continue
        some = np.abs(samples.stacked(0, min(samples.count, FEW_SAMPLES))[tensor.name])
        reach = some.reshape(-1, some.shape[-1]).max(axis=0)
        lost = np.flatnonzero((reach > 0) & (reach < 2 * tensor.scale[0]))
        if lost.size and reach.max() > MANY_STEPS * tensor.scale[0]:
            first = int(lost[0])
            report.note(
                f"{lost.size} of {reach.size} channels of input {tensor.name!r} are lost beside "
                f"the others, for example channel {first}, which reaches {reach[first]:g} where a "
                f"step is {tensor.scale[0]:g}: an input has one scale, so bring channels to "
                "one range before the network"
            )


def _remark_far_out(report: Report, name: str, seen: Histogram, samples: Samples) -> None:
    middles, counts = seen.values()
    order = np.argsort(np.abs(middles), kind="stable")
    passed = np.cumsum(counts[order])
    if not passed.size:
        return
    usual = abs(float(middles[order[np.searchsorted(passed, USUAL * passed[-1])]]))
    if not usual:
        some = samples.stacked(0, min(samples.count, FEW_SAMPLES))[name]
        usual = float(np.quantile(np.abs(some), USUAL, method="lower"))
    if usual > 0 and seen.largest > FAR_OUT * usual:
        report.note(
            f"calibration data of {name!r} reaches {seen.largest:g}, but 99.9 % of it stays within "
            f"{usual:g}: is a sample broken?"
        )


def _most_harmful(report: Report, graph: Graph) -> list[str]:
    """Return the results that lose most decibels against the worst of what they are made of."""
    known = {layer.name: layer.output_sqnr for layer in report.layers}
    lost = {}
    for layer in report.layers:
        if layer.output_sqnr is None:
            continue
        before = [known[n] for n in _near(graph, layer.name, known) if known[n] is not None]
        lost[layer.name] = min((b for b in before if b is not None), default=60.0) - (
            layer.output_sqnr
        )
    return sorted(lost, key=lambda name: -lost[name])[:NAMED]


def _near(graph: Graph, name: str, known: Mapping[str, object]) -> list[str]:
    """Return the quantized results that an op depends on directly."""
    found, waiting = [], graph[name].sources()
    while waiting:
        source = waiting.pop()
        if source in known:
            found.append(source)
        else:
            waiting += graph[source].sources()
    return found


def note_not_deployable(config: QuantizeConfig, report: Report) -> None:
    """Say what is not done because the DPU cannot run the result."""
    why = f"configuration is not deployable ({report.obstacles[0]})"
    if config.refinement:
        report.note(
            f"refinement was skipped: it tries fix points that the DPU can run, and this {why}"
        )
    if config.weight_correction or config.finetune is not None:
        report.note(
            f"weights are neither corrected nor finetuned: that works on fix points, and this {why}"
        )


def note_narrow(config: QuantizeConfig, report: Report) -> None:
    """Say what constants of fewer bits are on the DPU."""
    for role, bits in sorted({(r, s.bits) for r, s in config.specs() if s.bits < DPU_BITS}):
        report.note(
            f"{role} of {bits} bits: the DPU stores int8 values on a coarser grid, as large and as "
            "fast as 8 bits"
        )
