# SPDX-License-Identifier: Apache-2.0
"""Depthwise convolution on the MISC engine: ALU DWCV, DWCVB0, DWCVW16B0 and DPTWISE."""

import dataclasses
import random

import pytest
from misc_bench import check
from misc_draws import depthwise_alu, dptwise, windows

from opendpu_arch.target import Target


@pytest.mark.parametrize("draw", [depthwise_alu, dptwise])
@pytest.mark.parametrize(
    ("name", "taps"),
    [("B64", 1), ("B64", 3), ("B128", 3), pytest.param("B512", 3, marks=pytest.mark.slow)],
)
def test_random_instructions(draw, name, taps):
    check(draw, Target.from_name(name), seed=random.randrange(1 << 32), taps_per_cycle=taps)


@pytest.mark.parametrize("window", [True, False])
@pytest.mark.parametrize(
    ("name", "stall"),
    [("B128", 0), ("B128", 0.3), pytest.param("B512", 0.2, marks=pytest.mark.slow)],
)
def test_three_wide_kernels_of_stride_1(name, stall, window):
    seed = random.randrange(1 << 32)
    check(windows, Target.from_name(name), seed=seed, count=6, stall=stall, window=window)


@pytest.mark.parametrize("draw", [depthwise_alu, dptwise])
def test_leaky_relu_where_the_target_has_it(draw):
    target = dataclasses.replace(Target.from_name("B64"), alu_leaky_relu=True)
    check(draw, target, seed=random.randrange(1 << 32))
