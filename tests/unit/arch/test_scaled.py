# SPDX-License-Identifier: Apache-2.0
"""The arithmetic of the extension ``scaled``, and the records that it reads."""

import random
from fractions import Fraction

import numpy as np
import pytest

from opendpu_arch import numerics, scaled
from opendpu_arch.scaled import Rounding


def half_away(x: Fraction) -> int:
    whole = int(abs(x) + Fraction(1, 2))
    return whole if x >= 0 else -whole


def exact(t: int, multiplier: int, shift: int, rounding: Rounding) -> int:
    """Return the product in fractions, rounded as gemmlowp documents it."""
    product = Fraction(t * multiplier, 1 << 31)
    if rounding == Rounding.TWICE:
        product = Fraction((product + Fraction(1, 2)).__floor__())
    return half_away(product / (1 << shift))


@pytest.mark.parametrize("rounding", Rounding)
def test_products_are_rounded_as_in_fractions(rounding: Rounding) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    for _ in range(3000):
        t = rng.choice((rng.randrange(-(1 << 28), 1 << 28), rng.randrange(-300, 300)))
        multiplier = rng.choice((1 << 30, 0, rng.randrange(1 << 30, 1 << 31)))
        shift = rng.randrange(32)
        found = numerics.multiply_by_quantized_multiplier(
            np.array(t), np.array(multiplier), np.array(shift), rounding
        )
        assert int(found) == exact(t, multiplier, shift, rounding), (t, multiplier, shift)


def test_ties_go_away_from_zero_and_rounding_twice_makes_more_of_them() -> None:
    t, half = np.array([-3, -1, 1, 3]), np.array(1 << 30)
    once = numerics.multiply_by_quantized_multiplier(t, half, np.array(0), Rounding.ONCE)
    assert once.tolist() == [-2, -1, 1, 2]
    twice = numerics.multiply_by_quantized_multiplier(t, half, np.array(0), Rounding.TWICE)
    assert twice.tolist() == [-1, 0, 1, 2]  # the first rounding is half up, and then there is none
    quarter = numerics.multiply_by_quantized_multiplier(t, half, np.array(1), Rounding.TWICE)
    assert quarter.tolist() == [-1, 0, 1, 1]  # 1/4 becomes 1/2, and that 1


def test_sums_saturate_results_are_moved_and_clamped() -> None:
    most = np.array([(1 << 31) - 1])
    fields = {"zero": 3, "low": -100, "high": 90, "rounding": Rounding.TWICE}
    acc = np.array([-(1 << 31), -200, -64, 0, 64, 200, 1 << 31])[:, None]
    found = numerics.requantize_scaled(acc, np.array([0]), most, np.array([0]), **fields)
    assert found[:, 0].tolist() == [-100, -100, -61, 3, 67, 90, 90]
    shifted = numerics.requantize_scaled(acc, np.array([0]), most, np.array([21]), **fields)
    assert shifted[[0, -1], 0].tolist() == [-100, 90]
    # 2**28 less one at most, and -2**28: 128 after a shift by 21, less than 1 after one by 29
    late = numerics.requantize_scaled(acc, np.array([0]), most, np.array([29]), **fields)
    assert late[[0, -1], 0].tolist() == [2, 3]


def test_limits_in_the_wrong_order() -> None:
    acc, none, half = np.array([-20, 0]), np.array([0]), np.array([1 << 30])
    found = numerics.requantize_scaled(
        acc, none, half, none, zero=0, low=5, high=-5, rounding=Rounding.ONCE
    )
    assert found.tolist() == [5, -5]


def test_terms_replace_bytes() -> None:
    table = np.arange(256, dtype=np.int64) << 20
    x = np.array([0, 1, -1, -128], np.int8)
    assert numerics.scaled_add([x, x], [table, table]).tolist() == [
        0,
        2 << 20,
        510 << 20,
        256 << 20,
    ]
    small = np.concatenate((np.arange(128), np.arange(-128, 0))) - 127
    assert numerics.scaled_mult([x, x], [small, small]).tolist() == [
        127**2,
        126**2,
        128**2,
        255**2,
    ]
    assert numerics.scaled_mult([x, x], [small + 1024, small])[0] == 127**2  # ten bits count


def test_a_record_has_a_byte_a_lane() -> None:
    made = scaled.record(
        bias=np.array([-2, 0x01020304, 0, 0]),
        multiplier=np.array([0x7FFFFFFF, 0x40000001, 0, 0]),
        shift=np.array([31, 0, 0, 0]),
        zero=-1,
        low=-128,
        high=127,
        rounding=Rounding.ONCE,
    )
    assert made.shape == (10, 4)
    assert made[:, 0].tolist()[:9] == [254, 255, 255, 255, 255, 255, 255, 127, 31]
    assert made[:, 1].tolist()[:9] == [4, 3, 2, 1, 1, 0, 0, 64, 0]
    assert made[9].tolist() == [255, 128, 127, 1]


def test_a_record_refuses_what_does_not_fit() -> None:
    fine = {"bias": np.zeros(4, int), "multiplier": np.zeros(4, int), "shift": np.zeros(4, int)}
    rest = {"zero": 0, "low": 0, "high": 0, "rounding": Rounding.TWICE}
    for name, value in (("bias", 1 << 31), ("multiplier", 1 << 31), ("shift", 32)):
        bad = fine | {name: np.array([0, 0, 0, value])}
        with pytest.raises(ValueError, match=f"{name} has 0..{value}, not in"):
            scaled.record(**bad, **rest)
    with pytest.raises(ValueError, match="low has -129"):
        scaled.record(**fine, **(rest | {"low": -129}))
