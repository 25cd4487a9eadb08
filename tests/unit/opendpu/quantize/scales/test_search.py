# SPDX-License-Identifier: Apache-2.0
"""Scales by every method, against exhaustive search and against the definitions."""

import numpy as np
import pytest
from scipy import stats

from opendpu.ops.formats import fake_quantize
from opendpu.quantize import TensorSpec
from opendpu.quantize.scales.choose import combined
from opendpu.quantize.scales.search import Rows, divergence, search
from opendpu.quantize.scales.template import template_of


def found(values, **given):
    spec = TensorSpec(**{"scale": "float", **given})
    return search(Rows.of(np.atleast_2d(values)), spec, template_of(spec))


def tailed(rng, count=20000):
    """Return values with a few that are far out."""
    values = rng.standard_normal(count)
    values[:4] = [30, -28, 25, 31]
    return values.astype(np.float32)


@pytest.mark.parametrize("bits", [2, 4, 8, 12, 16])
def test_largest_magnitude_is_the_largest_integer(rng, bits):
    values = tailed(rng)
    made = found(values, method="max", bits=bits)
    assert made.scale[0] == pytest.approx(31 / (2 ** (bits - 1) - 1))
    assert made.zero_point == (0,)
    narrow = found(values, method="max", bits=bits, scale="power_of_two")
    most = 2 ** (bits - 1) - 0.5
    assert narrow.scale[0] * most >= 31 > narrow.scale[0] / 2 * most


@pytest.mark.parametrize(("low", "high"), [(-1, 3), (0, 5), (2, 6), (-7, -1), (-2, 0)])
@pytest.mark.parametrize("signed", [True, False])
def test_zero_points_hold_the_whole_range_and_zero(low, high, signed):
    values = np.linspace(low, high, 1001, dtype=np.float32)
    made = found(values, method="max", symmetric=False, signed=signed)
    back = fake_quantize(np.append(values, np.float32(0)), made)
    assert back[-1] == 0
    assert np.abs(back[:-1] - values).max() <= made.scale[0] * 0.501
    wide = max(high, 0) - min(low, 0)
    assert made.scale[0] == pytest.approx(wide / 255)


def test_percentile_of_magnitudes_is_numpys(rng):
    values = tailed(rng, 20011)
    made = found(values, method="percentile", percentile=99.9)
    wanted = np.percentile(np.abs(values), 99.9, method="inverted_cdf")
    assert made.scale[0] * 127 == pytest.approx(wanted, rel=1e-6)
    everything = found(values, method="percentile", percentile=100)
    assert everything.scale[0] * 127 == pytest.approx(31)


def test_percentile_of_both_ends(rng):
    values = np.concatenate([tailed(rng, 20010), [-100.0]]).astype(np.float32)
    made = found(values, method="percentile", percentile=99, symmetric=False)
    low, high = np.percentile(values, [0.5, 99.5], method="inverted_cdf")
    assert made.scale[0] * 255 == pytest.approx(high - low, rel=1e-6)


@pytest.mark.parametrize("bits", [3, 4, 8])
@pytest.mark.parametrize("scale", ["float", "power_of_two"])
@pytest.mark.parametrize("method", ["mse", "minmse", "diffs"])
def test_least_error_is_near_the_best_of_all(rng, bits, scale, method):
    values = tailed(rng)
    made = found(values, method=method, bits=bits, scale=scale)
    spec = TensorSpec(bits=bits, scale=scale)
    template = template_of(spec)
    if scale == "power_of_two":
        tried = [template.at(point) for point in range(-3, 12)]
    else:
        limit = template.limits[1]
        tried = [template_of(spec).__class__((t / limit,), bits=bits)
                 for t in np.linspace(0.5, 31, 500)]  # fmt: skip
    errors = [float(((fake_quantize(values, q) - values) ** 2).sum()) for q in tried]
    own = float(((fake_quantize(values, made) - values) ** 2).sum())
    assert own <= min(errors) * (1.02 if scale == "float" else 1.0)


def test_divergence_is_that_of_scipy(rng):
    """Of the definition, with everything inside: sums over levels, spread over filled bins."""
    counts = rng.integers(0, 9, 256)
    levels = 64
    sums = counts.reshape(levels, 4).sum(axis=1)
    filled = (counts > 0).reshape(levels, 4)
    spread = np.where(filled, (sums / np.maximum(filled.sum(axis=1), 1))[:, None], 0).ravel()
    wanted = stats.entropy(counts[counts > 0], spread[counts > 0])
    assert divergence(counts, 256, levels) == pytest.approx(wanted)
    assert divergence(counts, 64, 64) > 0


def test_entropy_cuts_off_what_is_far_out(rng):
    values = tailed(rng, 100000)
    made = found(values, method="entropy")
    assert 2.5 < made.scale[0] * 127 < 12
    coarse = found(values, method="entropy", scale="power_of_two")
    assert coarse.scale[0] in (2.0**-5, 2.0**-4)


def test_entropy_of_an_even_distribution_keeps_all(rng):
    values = rng.uniform(-1, 1, 200000).astype(np.float32)
    assert found(values, method="entropy").scale[0] * 127 > 0.95


@pytest.mark.parametrize("method", ["max", "percentile", "mse", "entropy"])
@pytest.mark.parametrize("scale", ["float", "power_of_two"])
def test_rows_have_scales_of_their_own(rng, method, scale):
    rows = rng.standard_normal((3, 4000)).astype(np.float32) * np.array([[1], [100], [0.01]])
    together = found(rows.astype(np.float32), method=method, scale=scale)
    alone = [found(row.astype(np.float32), method=method, scale=scale).scale[0] for row in rows]
    assert together.scale == pytest.approx(alone)


@pytest.mark.parametrize("method", ["max", "percentile", "mse", "entropy"])
@pytest.mark.parametrize("scale", ["float", "power_of_two"])
def test_zeros_have_a_scale_too(method, scale):
    made = found(np.zeros((2, 50), np.float32), method=method, scale=scale)
    assert made.scale == (2.0**-7, 2.0**-7)


def batches(*scales, zero=0):
    template = template_of(TensorSpec())
    return [template.__class__((scale,), (zero,)) for scale in scales]


@pytest.mark.parametrize(
    ("statistic", "wanted"),
    [("modal", 0.25), ("max", 1.0), ("mean", 0.5), ("median", 0.25), ("moving_average", 0.125)],
)
def test_statistics_of_batches(statistic, wanted):
    """Means of 2.125 / 4, and of 0.125 that moves by a hundredth each, to the nearest power."""
    spec = TensorSpec(method="mse", statistic=statistic)
    assert combined(batches(0.125, 0.25, 0.25, 1.0, 0.25), spec).scale == (wanted,)


def test_means_of_floats_are_means():
    spec = TensorSpec(method="mse", statistic="mean", scale="float")
    assert combined(batches(0.1, 0.3), spec).scale[0] == pytest.approx(0.2)


def test_of_equally_common_ones_the_larger_scale():
    spec = TensorSpec(method="mse", statistic="modal")
    assert combined(batches(0.25, 0.5, 0.25, 0.5), spec).scale == (0.5,)


def test_ranges_with_zero_points_are_combined_by_their_ends():
    spec = TensorSpec(method="max", statistic="max", scale="float", symmetric=False)
    template = template_of(spec)
    given = [template.__class__((1.0,), (-128,)), template.__class__((1.0,), (127,))]
    made = combined(given, spec)  # 0 .. 255, and -255 .. 0
    assert made.scale[0] == pytest.approx(2.0)
    assert made.zero_point[0] in (-1, 0)
