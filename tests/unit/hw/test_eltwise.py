# SPDX-License-Identifier: Apache-2.0
"""Elementwise sums and products on the MISC engine."""

import random

import pytest
from misc_bench import check
from misc_draws import elew

from opendpu_arch.target import Target


@pytest.mark.parametrize("name", ["B64", "B128", pytest.param("B512", marks=pytest.mark.slow)])
def test_random_instructions(name):
    check(elew, Target.from_name(name), seed=random.randrange(1 << 32), count=8)
