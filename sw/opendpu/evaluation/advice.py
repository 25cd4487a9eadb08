# SPDX-License-Identifier: Apache-2.0
"""What a report says should be tried next."""

import math
from collections.abc import Sequence

from opendpu.quantize.report import LayerReport, Report

POOR = 15.0
"""Signal to noise of an output, dB, below which answers change."""

SATURATED = 0.01
"""Part of a tensor's values that may saturate without a word."""

COARSE_WEIGHTS = 20.0
"""Signal to noise of weights, dB, below which their channels differ too much for one scale."""

ENOUGH = 100
"""Samples that tell the ranges of tensors."""

LONGEST = 60
"""Characters of a name that are shown."""

MOST = 3
"""Layers that are named at a time."""


def advice(report: Report) -> list[str]:
    """Return what to try, the most promising first: a sentence each; ``report.notes`` say why."""
    found = []
    poor = any(ratio is not None and ratio < POOR for ratio in report.outputs_sqnr.values())
    trainable = not report.finetuned and not report.obstacles
    if poor:
        found.append(
            "finetune (--finetune adaquant), or " * trainable
            + "find out with --sensitivity which layers deserve more bits"
        )
    if any(t.saturation > SATURATED and t.role != "weights" for t in report.tensors):
        found.append("compare with --method nonoverflow, where no activation saturates")
    coarse = [
        t
        for t in report.tensors
        if t.role == "weights" and t.sqnr is not None and t.sqnr < COARSE_WEIGHTS
    ]
    if coarse and trainable:
        worst = sorted(coarse, key=lambda t: t.sqnr or 0.0)[:MOST]
        named = ", ".join(f"{short(t.layer)} ({t.sqnr:.1f} dB)" for t in worst)
        found.append(f"finetune (--finetune adaquant): weights are coarse, most those of {named}")
    for name, cost in report.substitution_sqnr.items():
        if cost is not None and cost < POOR:
            found.append(
                f"hard activations alone leave {cost:.1f} dB of output {name}: train with them, "
                "or leave them out (--activation-substitution none)"
            )
    if poor and report.samples < ENOUGH:
        found.append(f"calibrate with more than {report.samples} samples; 100 to 1000 are usual")
    return found


def short(name: str) -> str:
    """Return a name that fits on a line: exporters join the names of what they fold."""
    half = LONGEST // 2
    return name if len(name) <= LONGEST else f"{name[:half]}...{name[-half:]}"


def steepest(layers: Sequence[LayerReport]) -> list[tuple[LayerReport, float]]:
    """Return where the signal to noise falls most from one layer to the next, and by how much."""
    falls = []
    before = math.inf
    for layer in layers:
        if layer.output_sqnr is None:
            continue
        if math.isfinite(before) and layer.output_sqnr < before:
            falls.append((layer, before - layer.output_sqnr))
        before = layer.output_sqnr
    return sorted(falls, key=lambda pair: -pair[1])
