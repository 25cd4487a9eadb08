# SPDX-License-Identifier: Apache-2.0
"""Observers: what they saw in parts and merged is what they saw at once."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from opendpu.ir import Quantization
from opendpu.quantize.observers.channels import ChannelHistograms
from opendpu.quantize.observers.histogram import Histogram, joined
from opendpu.quantize.observers.mean import Mean
from opendpu.quantize.observers.ranges import MinMax, MovingAverage
from opendpu.quantize.observers.sampling import PER_SAMPLE, Stride
from opendpu_arch.errors import TensorError

NUMBERS = st.floats(-1000, 1000, width=32)
BATCHES = st.lists(
    npst.arrays(np.float32, st.tuples(st.integers(1, 4), st.just(3)), elements=NUMBERS),
    min_size=1, max_size=5,
)  # fmt: skip
SPLIT = st.integers(0, 5)


@given(BATCHES, SPLIT)
def test_ranges(batches, split):
    for channels in (False, True):
        whole, first, second = (MinMax(channels) for _ in range(3))
        for index, batch in enumerate(batches):
            whole.add(batch)
            (first if index < split else second).add(batch)
        first.merge(second)
        np.testing.assert_array_equal(first.low, whole.low)
        np.testing.assert_array_equal(first.high, whole.high)
        data = np.concatenate(batches)
        np.testing.assert_array_equal(whole.low, data.min(axis=0 if channels else None))


@given(st.lists(NUMBERS, min_size=1, max_size=12), SPLIT)
def test_moving_averages_of_consecutive_batches(numbers, split):
    whole, first, second = MovingAverage(), MovingAverage(), MovingAverage()
    wanted = numbers[0]
    for index, number in enumerate(numbers):
        if index:
            wanted += 0.01 * (number - wanted)
        whole.add(number)
        (first if index < split else second).add(number)
    first.merge(second)
    assert whole.value == pytest.approx(wanted, abs=1e-9)
    assert first.value == pytest.approx(wanted, abs=1e-9)


@settings(deadline=None, max_examples=30)
@given(BATCHES, SPLIT)
def test_histograms(batches, split):
    """Values on a grid that all bins hold are counted exactly, whatever the order."""
    batches = [np.rint(batch * 4) / np.float32(4) for batch in batches]
    whole, first, second = (Histogram("t") for _ in range(3))
    for index, batch in enumerate(batches):
        whole.add(batch)
        (first if index < split else second).add(batch)
    before = second.counts.copy()
    first.merge(second)
    np.testing.assert_array_equal(second.counts, before)
    assert (first.low, first.high, first.point) == (whole.low, whole.high, whole.point)
    np.testing.assert_array_equal(first.counts, whole.counts)
    values, counts = np.unique(np.concatenate(batches), return_counts=True)
    middles, found = whole.values()
    np.testing.assert_array_equal(middles, values)
    np.testing.assert_array_equal(found, counts)


@settings(deadline=None, max_examples=30)
@given(BATCHES, SPLIT)
def test_histograms_of_channels(batches, split):
    batches = [np.rint(batch / 8) * np.float32(8) for batch in batches]
    whole, first, second = (ChannelHistograms(3) for _ in range(3))
    for index, batch in enumerate(batches):
        whole.add(batch)
        (first if index < split else second).add(batch)
    first.merge(second)
    assert first.point == whole.point
    np.testing.assert_array_equal(first.counts, whole.counts)
    data = np.concatenate(batches)
    for channel in range(3):
        values, counts = np.unique(data[:, channel], return_counts=True)
        (places,) = whole.counts[channel].nonzero()
        np.testing.assert_array_equal(whole.middles()[places], values)
        np.testing.assert_array_equal(whole.counts[channel, places], counts)


@given(BATCHES)
def test_means(batches):
    mean = Mean()
    for batch in batches:
        mean.add(batch)
    wanted = np.concatenate(batches).astype(np.float64).mean(axis=0)
    np.testing.assert_allclose(mean.value, wanted, rtol=1e-6, atol=1e-4)


def test_means_of_feature_maps_in_any_order_of_axes(rng):
    array = rng.standard_normal((5, 7, 9, 3)).astype(np.float32)
    wanted = array.astype(np.float64).mean(axis=(0, 1, 2))
    moved = np.ascontiguousarray(array.transpose(0, 3, 1, 2)).transpose(0, 2, 3, 1)
    for ordered in (array, moved):
        mean = Mean()
        mean.add(ordered)
        np.testing.assert_allclose(mean.value, wanted, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("point", [3, 5, 9])
def test_error_of_a_histogram_is_that_of_the_values(rng, point):
    array = rng.standard_normal((4, 5000)).astype(np.float32)
    seen = Histogram("t")
    seen.add(array)
    scaled = np.clip(np.floor(array * 2.0**point + 0.5), -128, 127) / 2.0**point
    wanted = ((scaled - array) ** 2).sum()
    assert seen.squared_error(Quantization.power_of_two(point)) == pytest.approx(wanted, rel=0.01)
    assert seen.squares() == pytest.approx((array**2).sum(), rel=1e-3)


def test_saturation_is_the_part_that_does_not_fit():
    seen = Histogram("t")
    seen.add(np.array([[-3, -2.01, -2, 0, 1.98, 1.995, 5, 6]], np.float32))
    assert seen.saturation(Quantization.power_of_two(6)) == 5 / 8


def test_some_values_of_every_channel_and_row_of_large_tensors(rng):
    shape = (2, 64, 64, 64)
    size = 64 * 64 * 64
    places = np.arange(2 * size).reshape(shape)
    stride = Stride()
    some = stride.some(places.ravel(), 2)
    assert PER_SAMPLE < some.size < 3 * PER_SAMPLE
    assert len(np.unique(some % 64)) == 64
    assert len(np.unique(some // 64 % 64)) == 64
    assert stride.some(places.ravel(), 2)[0] != some[0]
    seen = Histogram("t")
    array = rng.standard_normal(shape).astype(np.float32)
    array[1, 5, 6, 7] = 40
    seen.add(array)
    assert seen.high == 40
    assert seen.squares() / seen.total == pytest.approx(1.0, rel=0.15)  # 40 may be among them


def test_values_that_are_not_finite():
    with pytest.raises(TensorError, match="op 'relu' of the float network gives values that are"):
        Histogram("relu").add(np.array([1, np.nan], np.float32))


def test_joined_leaves_its_parts_alone(rng):
    parts = [Histogram(str(n)) for n in range(2)]
    for number, part in enumerate(parts):
        part.add(rng.standard_normal((1, 100)).astype(np.float32) * 10**number)
    before = [part.counts.copy() for part in parts]
    assert joined(parts).total == 200
    for part, counts in zip(parts, before, strict=True):
        np.testing.assert_array_equal(part.counts, counts)
