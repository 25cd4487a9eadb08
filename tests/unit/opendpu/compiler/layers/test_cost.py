# SPDX-License-Identifier: Apache-2.0
"""Cycles that the cost model expects of the misc engine, against a walk over kernels."""

import itertools

import pytest

from opendpu.compiler.layers import Window
from opendpu.compiler.layers.cost import COMPUTE_OVERHEAD, alu_cycles, shared_cycles

KERNELS = (1, 2, 3, 5, 7)
TAPS = 3


def steps(window: Window, columns: int) -> int:
    """Walk as docs/engine/misc.md says: kernel rows of one phase are in banks in a row."""
    shape = window.kernel_h, window.kernel_w
    strides = window.stride_h, window.stride_w
    if window.kernel_w == 3 and window.kernel_h <= 3 and strides == (1, 1):
        return columns + 2
    whole = 0
    for phase in range(min(window.stride_h, window.kernel_h)):
        left = [row for row in range(window.kernel_h) if row % window.stride_h == phase]
        while left:
            left, whole = left[TAPS:], whole + 1
    if shape == (3, 3) and strides == (2, 2):  # the last kernel column is the next one's first
        return whole * 3 + (columns - 1) * whole * 2
    return columns * window.kernel_w * whole


@pytest.mark.parametrize("stride", [*itertools.product((1, 2, 3), repeat=2)])
@pytest.mark.parametrize("kernel", [*itertools.product(KERNELS, repeat=2)])
def test_steps_of_the_misc_engine(kernel: tuple[int, int], stride: tuple[int, int]) -> None:
    (height, width), (down, across) = kernel, stride
    window = Window(kernel_h=height, kernel_w=width, stride_h=down, stride_w=across)
    for columns, groups in ((1, 1), (14, 5)):
        found = alu_cycles(columns, groups, window) - COMPUTE_OVERHEAD
        assert found == groups * steps(window, columns)


@pytest.mark.parametrize(
    ("kernel", "stride", "each"),
    [(1, 1, 1), (2, 2, 4), (3, 2, 4), (5, 1, 10), (5, 2, 10), (7, 1, 21)],
)
def test_steps_of_the_table(kernel: int, stride: int, each: int) -> None:
    window = Window(kernel_h=kernel, kernel_w=kernel, stride_h=stride, stride_w=stride)
    assert alu_cycles(101, 1, window) - alu_cycles(100, 1, window) == each


def test_banks_that_take_results_in_turns() -> None:
    assert alu_cycles(10, 2, Window(), stride_out=3) == COMPUTE_OVERHEAD + 2 * 30


def test_transfers_side_by_side_share_the_memory() -> None:
    """Each of 300 cycles moves two beats; the memory moves three."""
    assert shared_cycles(600) == 400
