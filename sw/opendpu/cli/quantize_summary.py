# SPDX-License-Identifier: Apache-2.0
"""What ``opendpu quantize`` prints: text for people, JSON for programs."""

import dataclasses
import math
from typing import Any

from opendpu.evaluation.advice import advice, short
from opendpu.quantize import Report
from opendpu.quantize_model import QuantizedModel

MOST = 10
"""Layers whose sensitivity is printed."""


def summary(found: QuantizedModel) -> str:
    """Return a few lines: what it cost, what to try, which layers deserve more bits."""
    report = found.report
    if report is None:
        return "quantized already: written as it is"
    lines = []
    if report.samples:
        lines.append(
            f"quantized with {report.samples} sample{'s' * (report.samples != 1)}, "
            f"{len(report.floating)} ops stay in float"
        )
    for name, ratio in report.outputs_sqnr.items():
        shown = "unchanged" if ratio is None else f"{ratio:.1f} dB signal to noise"
        lines.append(f"output {name}: {shown}")
    lines += report.lines()
    lines += [f"try: {text}" for text in advice(report)]
    if found.sensitivities:
        lines.append("outputs gain, if a layer stays in float:")
        lines += [
            f"  {one.gain:+6.2f} dB  {short(one.name)} ({one.kind})"
            for one in found.sensitivities[:MOST]
        ]
    lines += [str(one) for one in found.checks or ()]
    return "\n".join(lines)


def as_json(found: QuantizedModel) -> dict[str, Any]:
    """Return everything that is known, in numbers that JSON has: infinite ones become null."""
    made: dict[str, Any] = {"report": _report(found.report)}
    if found.sensitivities is not None:
        made["sensitivity"] = [dataclasses.asdict(one) for one in found.sensitivities]
    if found.checks is not None:
        made["deploy_check"] = [
            {**dataclasses.asdict(one), "agrees": one.agrees} for one in found.checks
        ]
    finite = _finite(made)
    assert isinstance(finite, dict)
    return finite


def _report(report: Report | None) -> dict[str, Any] | None:
    if report is None:
        return None
    made = dataclasses.asdict(report)
    made["deployable"] = not report.obstacles
    made["advice"] = advice(report)
    return made


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
