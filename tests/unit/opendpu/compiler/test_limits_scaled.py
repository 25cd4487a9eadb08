# SPDX-License-Identifier: Apache-2.0
"""Limits of the extension ``scaled``: at each a layer is on the DPU, just beyond it on the CPU."""

import re

import numpy as np
import pytest

from opendpu.compiler.constraints import CONSTRAINTS
from opendpu.compiler.pipeline import compile_with_report
from opendpu.ir import Quantization, QuantizedGraph
from opendpu_arch.scaled import SUM_BITS
from opendpu_arch.target import Target

TARGET = Target.from_name("B64+scaled")
INPUT, WEIGHTS = 0.037, 0.011
HALF = 1 << (SUM_BITS - 1)


def layer(
    *, result: float = 0.1, zero: int = 0, bias: int = 100, groups: bool = False
) -> QuantizedGraph:
    """Return a network of a convolution; its weights are 127, its input has the zero point 11.

    It has one tap, or with ``groups`` two that are two columns apart.
    """
    taps, outputs, count = (2, 4, 2) if groups else (1, 3, 1)
    graph = QuantizedGraph("net")
    graph.add("x", "data", (1, 2, 2 * taps, count))
    graph.add_fix("x_fix", "x", Quantization((INPUT,), (11,)))
    graph.add_const("w", np.full((outputs, 1, taps, 1), (127 - zero) * WEIGHTS, np.float32))
    graph.add_fix("w_fix", "w", Quantization((WEIGHTS,), (zero,), axis=None))
    graph.add_const("b", np.full(outputs, bias * INPUT * WEIGHTS, np.float32))
    attrs = {
        "kernel": [taps, 1], "stride": [1, 1], "dilation": [taps, 1], "group": count,
        "pad": [0] * 4, "pad_mode": "FLOOR",
    }  # fmt: skip
    inputs = {"input": ["x_fix"], "weights": ["w_fix"], "bias": ["b"]}
    graph.add("y", "conv2d", (1, 2, 2, outputs), inputs, attrs)
    graph.add_fix("y_fix", "y", Quantization((result,), (-3,)))
    graph.outputs = ["y_fix"]
    return graph


CASES = {
    "multiplier_below_one": (
        {"result": INPUT * WEIGHTS / 0.99}, {"result": INPUT * WEIGHTS / 1.01},
        r"factors below 1 between scales, but here one is 2\*\*0 or more",
    ),
    "symmetric_weights": (
        {"groups": True, "zero": 3}, {"groups": True, "zero": -3},
        "weights with zero point 0, but they have -3",
    ),
    "sums_fit": (
        {"bias": HALF - 40_000}, {"bias": HALF}, r"sums below 2\*\*28, but here one may be \d+",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_at_the_limit_and_beyond(name):
    at_it, beyond, text = CASES[name]
    assert not compile_with_report(layer(**at_it), TARGET).report.on_cpu
    (constraint,) = (c for c in CONSTRAINTS if c.name == name)
    reasons = compile_with_report(layer(**beyond), TARGET).report.on_cpu
    why = rf"DPU only supports {text}; {constraint.lift} would lift it \({constraint.code}\)"
    assert any(re.fullmatch(why, reason) for reason in reasons.values()), reasons


def test_every_constraint_of_the_extension_has_a_case():
    scaled = {c.name for c in CONSTRAINTS if c.check.__module__.endswith(".scaled")}
    assert scaled == set(CASES)
