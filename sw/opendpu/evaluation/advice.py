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

MOST = 3
"""Layers that are named at a time."""


def advice(report: Report) -> list[str]:
    """Return what to try, the most promising first: a sentence each."""
    found = []
    poor = {name: r for name, r in report.outputs_sqnr.items() if r is not None and r < POOR}
    for name, ratio in poor.items():
        found.append(f"output {name} has {ratio:.1f} dB only: below {POOR:g} dB answers change")
    if poor:
        found += _of_layers(report)
    found += _of_tensors(report)
    for name, cost in report.substitution_sqnr.items():
        if cost is not None and cost < POOR:
            found.append(
                f"hard activations alone leave {cost:.1f} dB of output {name}: train with them, "
                "or leave them out (--activation-substitution none)"
            )
    if poor and report.samples < 100:
        found.append(f"calibrate with more than {report.samples} samples; 100 to 1000 are usual")
    return found


def _of_layers(report: Report) -> list[str]:
    falls = steepest(report.layers)[:MOST]
    if not falls:
        return []
    named = ", ".join(f"{layer.name} (-{fall:.1f} dB)" for layer, fall in falls)
    return [
        f"most is lost at {named}: finetune (--finetune adaquant), or see with --sensitivity "
        "which layers deserve more bits"
    ]


def _of_tensors(report: Report) -> list[str]:
    found = []
    saturated = [t for t in report.tensors if t.saturation > SATURATED and t.role != "weights"]
    if saturated:
        worst = sorted(saturated, key=lambda t: -t.saturation)[:MOST]
        named = ", ".join(f"{t.name} ({100 * t.saturation:.1f} %)" for t in worst)
        found.append(
            f"{len(saturated)} tensors saturate, most {named}: compare with --method nonoverflow"
        )
    coarse = [
        t
        for t in report.tensors
        if t.role == "weights" and t.sqnr is not None and t.sqnr < COARSE_WEIGHTS
    ]
    if coarse:
        worst = sorted(coarse, key=lambda t: t.sqnr or 0.0)[:MOST]
        named = ", ".join(f"{t.layer} ({t.sqnr:.1f} dB)" for t in worst)
        found.append(f"weights of {named} are coarse: finetune (--finetune adaquant)")
    return found


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
