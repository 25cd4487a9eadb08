# SPDX-License-Identifier: Apache-2.0
"""Pooling on the MISC engine: ALU AVEPOOL, MAXPOOL, MAXREDUCE and POOL."""

import random

import pytest
from misc_bench import check
from misc_draws import pool, pooling_alu

from opendpu_arch.target import Target


@pytest.mark.parametrize("draw", [pooling_alu, pool])
@pytest.mark.parametrize(
    ("name", "taps"),
    [("B64", 1), ("B64", 3), ("B128", 3), pytest.param("B512", 3, marks=pytest.mark.slow)],
)
def test_random_instructions(draw, name, taps):
    check(draw, Target.from_name(name), seed=random.randrange(1 << 32), taps_per_cycle=taps)
