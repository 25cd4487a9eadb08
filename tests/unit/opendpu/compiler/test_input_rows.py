# SPDX-License-Identifier: Apache-2.0
"""Input rows that are loaded once for all blocks of output channels, or again for each block.

They can stay where all rows of a pass fit the banks at once. The heights around that border matter:
one row too many, and the last rows are written over the first ones, which the next block reads.
"""

import dataclasses

import pytest
from graph_draws import Quantized
from random_graphs.check import check

from opendpu_arch.target import Target

CASES = {
    # target, words a bank; columns, input and output channels, kernel, stride; heights
    "B64 stride": ("B64", 128, (15, 24, 64, 1, 2), range(11, 16)),
    "B64 wide": ("B64", 256, (20, 24, 96, 1, 2), range(8, 13)),
    "B144 flat": ("B144", 128, (30, 16, 64, 1, 1), range(4, 9)),
    "B144 high": ("B144", 128, (22, 16, 64, 1, 1), range(6, 10)),
    "B144 kernel": ("B144", 256, (22, 16, 256, 5, 1), range(10, 13)),
    "B144 block": ("B144", 256, (36, 24, 64, 5, 1), range(8, 11)),
}


@pytest.mark.parametrize("case", CASES)
def test_heights_around_what_the_banks_hold(case: str) -> None:
    name, depth, (width, inputs, outputs, kernel, stride), heights = CASES[case]
    target = dataclasses.replace(Target.from_name(name), bank_depth=depth)
    for height in heights:
        q = Quantized(seed=height)
        source = q.data(height, width, inputs)
        made = q.conv(source, "conv", outputs, kernel, stride, kernel // 2)
        compiled = check(q.done(made), target, height)
        assert not compiled.report.on_cpu
