# SPDX-License-Identifier: Apache-2.0
"""Aliases of feature maps with gaps: the steps found are those of numpy's views."""

import random

import numpy as np
import pytest

from opendpu.compiler.layers import Feature
from opendpu.compiler.network import Alias
from opendpu.compiler.network.strides import Strides, dense, strides_through


def _box(feature: Feature, pick: random.Random, name: str) -> tuple[Alias, Feature, tuple]:
    """Return an alias of every ``step``-th row, column of a part, and numpy's index of it."""
    index, sizes, starts, steps = [], [], [], []
    for size in (feature.height, feature.width, feature.channels):
        start = pick.randrange(size)
        step = 1 if len(index) == 2 else pick.randint(1, 3)
        count = pick.randint(1, (size - start - 1) // step + 1)
        index.append(slice(start, start + (count - 1) * step + 1, step))
        sizes.append(count)
        starts.append(start)
        steps.append(step)
    row, pixel = feature.width * feature.channels, feature.channels
    alias = Alias(
        holder=feature.name, offset=starts[0] * row + starts[1] * pixel + starts[2],
        pixel_bytes=steps[1] * pixel, row_bytes=steps[0] * row,
    )  # fmt: skip
    part = Feature(name=name, height=sizes[0], width=sizes[1], channels=sizes[2])
    return alias, part, tuple(index)


def _read(memory: np.ndarray, feature: Feature, steps: Strides) -> np.ndarray:
    return np.lib.stride_tricks.as_strided(
        memory[steps.offset :], (feature.height, feature.width, feature.channels),
        (steps.row_bytes * memory.itemsize, steps.pixel_bytes * memory.itemsize, memory.itemsize),
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(50))
def test_parts_of_parts(seed: int) -> None:
    pick = random.Random(seed)
    whole = Feature(name="w", height=pick.randint(1, 9), width=pick.randint(1, 9),
                    channels=pick.randint(1, 9))  # fmt: skip
    memory = np.arange(whole.height * whole.width * whole.channels)
    values = memory.reshape(whole.height, whole.width, whole.channels)
    holder, steps = whole, dense(whole)
    for name in "abc":
        alias, part, index = _box(holder, pick, name)
        found = strides_through(alias, part, holder, steps)
        assert found is not None
        values = values[index]
        np.testing.assert_array_equal(_read(memory, part, found), values, f"{name} of {seed}")
        holder, steps = part, found


def test_a_reshape_of_a_part() -> None:
    columns = Feature(name="c", height=4, width=6, channels=8)
    placed = Strides(offset=3, pixel_bytes=20, row_bytes=120)
    flat = Feature(name="f", height=1, width=24, channels=8)
    alias = Alias(holder="c", offset=0, pixel_bytes=8, row_bytes=192)
    found = strides_through(alias, flat, columns, placed)
    assert found is not None
    assert (found.offset, found.pixel_bytes) == (3, 20)
    gaps = Strides(offset=3, pixel_bytes=20, row_bytes=121)
    assert strides_through(alias, flat, columns, gaps) is None


def test_pixels_of_several_pixels_with_gaps_are_out_of_reach() -> None:
    holder = Feature(name="h", height=4, width=6, channels=8)
    pairs = Feature(name="p", height=4, width=3, channels=16)
    alias = Alias(holder="h", offset=0, pixel_bytes=16, row_bytes=48)
    gaps = Strides(offset=0, pixel_bytes=9, row_bytes=54)
    assert strides_through(alias, pairs, holder, dense(holder)) is not None
    assert strides_through(alias, pairs, holder, gaps) is None
