# SPDX-License-Identifier: Apache-2.0
"""Differences of feature maps with scales of their own: sums with the negative terms of one."""

import random

import numpy as np
import pytest
from graph_draws import Quantized
from random_graphs.check import check
from random_graphs.scales import by_integers, with_any_scales

from opendpu.compiler.pipeline import compile_with_report
from opendpu_arch.target import Target


def difference(seed: int, act: str | None) -> Quantized:
    """Return two convolutions, their difference, and a convolution of that."""
    q = Quantized(seed)
    x = q.data(6, 7, 5)
    parts = [q.conv(x, name, 9, kernel=3, pad=1, point=4) for name in ("one", "other")]
    q.op("op", "sub", (6, 7, 9), parts)
    q.conv(q.finish("op", 3, act), "after", 4, kernel=1, point=2)
    return q


@pytest.mark.parametrize("target", ["B512+scaled", "B1152+table+channel+scaled"])
@pytest.mark.parametrize("act", [None, "relu"])
def test_differences(act: str | None, target: str, rng: np.random.Generator) -> None:
    seed = int(rng.integers(1 << 30))
    q = difference(seed, act)
    graph = q.done("after_fix")
    with_any_scales(graph, random.Random(seed))
    compiled = check(graph, Target.from_name(target), seed, reference=by_integers)
    assert not compiled.report.on_cpu


def test_a_difference_of_powers_of_two_is_for_the_cpu() -> None:
    graph = difference(1, None).done("after_fix")
    compiled = compile_with_report(graph, Target.from_name("B512+scaled"))
    assert "the DPU has no sub" in compiled.report.on_cpu["op"]
