# SPDX-License-Identifier: Apache-2.0
"""The integer reference against the formulas, in exact fractions."""

import math
from fractions import Fraction

import numpy as np
import pytest
from oracle import engines

from opendpu.ir import Node
from opendpu_arch.errors import GraphError


def dpu_round(value: Fraction) -> int:
    return max(-128, min(127, math.floor(value + Fraction(1, 2))))


def power(exponent: int) -> Fraction:
    return Fraction(2) ** exponent


@pytest.mark.parametrize("shift", [-3, -1, 0, 1, 5, 20])
def test_round_shift(rng, shift):
    values = rng.integers(-5000, 5000, 300)
    expected = [dpu_round(int(v) / power(shift)) for v in values]
    assert engines.round_shift(values, shift).tolist() == expected


def test_halves_go_up():
    assert engines.round_shift(np.array([5, -5, 3, -3, 255, -257]), 1).tolist() == [
        3,
        -2,
        2,
        -1,
        127,
        -128,
    ]


@pytest.mark.parametrize("kind", [None, "relu", "relu6", "leaky-relu"])
@pytest.mark.parametrize(("x", "w", "b", "o"), [(4, 6, 8, 4), (3, 7, 10, 5), (-1, 8, 3, 4)])
def test_layer(rng, kind, x, w, b, o):
    total = rng.integers(-9000, 9000, (200, 3))
    bias = rng.integers(-128, 128, 3)
    shifts = engines.layer_shifts("c", x, w, b, o)
    function = engines.activation(kind, o, 26 / 256)
    found = engines.layer(total, bias, shifts, function)
    for (row, channel), value in np.ndenumerate(found):
        t = 2 * int(total[row, channel]) + int(bias[channel]) * power(w + x - b + 1)
        v = t / power(w + x - o + 1)
        if kind in ("relu", "relu6"):
            v = max(Fraction(0), v)
        if kind == "relu6" and o == 4:
            v = min(Fraction(96), v)
        if kind == "leaky-relu" and v < 0:
            v = v * 26 / 256
        assert value == dpu_round(v)


@pytest.mark.parametrize(
    ("x", "w", "b", "o", "text"),
    [
        (0, 0, 0, 1, "layer 'c' needs shift_cut -1, but it must be in 0..63"),
        (2, 2, 6, 1, "layer 'c' needs shift_bias -1, but it must be in 0..20"),
        (9, 9, -2, 1, "layer 'c' needs shift_bias 21, but it must be in 0..20"),
    ],
)
def test_shifts_out_of_range(x, w, b, o, text):
    with pytest.raises(GraphError, match=text):
        engines.layer_shifts("c", x, w, b, o)


@pytest.mark.parametrize(
    ("kind", "point", "alpha", "text"),
    [
        ("relu6", 3, None, "no activation 'relu6' for results at position 3"),
        ("leaky-relu", 3, 0.1, "no activation 'leaky-relu' with slope 0.1 for"),
        ("hard-swish", 3, None, "no activation 'hard-swish' for"),
    ],
)
def test_activations_that_no_engine_has(kind, point, alpha, text):
    with pytest.raises(GraphError) as caught:
        engines.activation(kind, point, alpha)
    assert text in str(caught.value)


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("points", [(4, 4), (3, 6), (7, 3), (5, 5, 2)])
@pytest.mark.parametrize("out", [1, 4, 6])
def test_add(rng, relu, points, out):
    arrays = [rng.integers(-128, 128, 200) for _ in points]
    function = engines.activation("relu" if relu else None, out)
    found = engines.add(arrays, list(points), out, function)
    coarse = min(points)
    for index, value in enumerate(found):
        parts = [
            math.floor(int(a[index]) * 4 / power(p - coarse))
            for a, p in zip(arrays, points, strict=True)
        ]
        v = sum(parts) * power(out - coarse) / 4
        assert value == dpu_round(max(Fraction(0), v) if relu else v)


def test_multiply(rng):
    one, other = rng.integers(-128, 128, (2, 300))
    found = engines.multiply([one, other], [4, 5], 3, engines.activation(None, 3))
    assert found.tolist() == [
        dpu_round(Fraction(int(a) * int(b), 2**6)) for a, b in zip(one, other, strict=True)
    ]


@pytest.mark.parametrize(
    ("kernel", "factor"),
    [
        ((3, 3), (7, 6)),
        ((5, 5), (10, 8)),
        ((6, 6), (7, 8)),
        ((7, 7), (21, 10)),
        ((14, 14), (21, 12)),
        ((2, 2), (1, 2)),
        ((8, 8), (1, 6)),
        ((1, 1), (1, 0)),
    ],
)
def test_average_factors(kernel, factor):
    assert engines.average_factor(*kernel) == factor


def test_average_factor_is_the_best_one_that_fits():
    for size in range(1, 400):
        check_average_factor(size)


def check_average_factor(size):
    factor, shift = engines.average_factor(size, 1)
    limit = math.ceil(math.log2(size * 128))
    errors = {
        (f, s): abs(Fraction(f, 2**s) - Fraction(1, size))
        for s in range(limit)
        for f in (math.floor(Fraction(2**s, size) + Fraction(1, 2)),)
        if 0 < f <= 127
    }
    errors[1, 0] = abs(1 - Fraction(1, size))
    assert errors[factor, shift] == min(errors.values())


def pool(kernel, **attrs) -> Node:
    attrs = {
        "kernel": list(kernel),
        "stride": [1, 1],
        "pad": [0, 0, 0, 0],
        "pad_mode": "FLOOR",
    } | attrs
    return Node("p", "avgpool2d", (), {"input": ["x"]}, attrs)


def test_average_pool(rng):
    x = rng.integers(-128, 128, (1, 5, 6, 2))
    found = engines.average_pool(pool((3, 3)), x, 4, 5)
    for (_, row, column, channel), value in np.ndenumerate(found):
        window = x[0, row : row + 3, column : column + 3, channel]
        assert value == dpu_round(int(window.sum()) * Fraction(7, 64) * 2)


def test_max_pool_pads_with_the_lowest_value():
    x = np.full((1, 2, 2, 1), -100)
    node = pool((3, 3), pad=[1, 1, 1, 1])
    node.kind = "maxpool2d"
    assert engines.max_pool(node, x, 3, 3).ravel().tolist() == [-100] * 4


def test_global_pool_covers_everything(rng):
    x = rng.integers(-128, 128, (2, 4, 4, 3))
    found = engines.average_pool(pool((1, 1), **{"global": True}), x, 0, 0)
    expected = [[dpu_round(Fraction(int(v), 16)) for v in row] for row in x.sum(axis=(1, 2))]
    assert found[:, 0, 0].tolist() == expected


@pytest.mark.parametrize("out", [5, 7])
def test_hard_sigmoid(rng, out):
    x = rng.integers(-128, 128, 300)
    found = engines.hard_sigmoid(x, 4, out)
    for value, given in zip(found, x, strict=True):
        bounded = min(6, max(0, Fraction(int(given), 16) + 3))
        assert value == dpu_round(bounded * 2731 / power(14 - out))


def test_prelu(rng):
    x, slope = rng.integers(-128, 128, (100, 4)), np.array([-50, 0, 3, 127])
    found = engines.prelu(x, slope, 5, 6, 4)
    for (row, channel), value in np.ndenumerate(found):
        v = int(x[row, channel])
        expected = Fraction(v * int(slope[channel]), 2**7) if v < 0 else Fraction(v, 2)
        assert value == dpu_round(expected)


@pytest.mark.parametrize("kind", ["conv2d", "depthwise-conv2d", "inner-product"])
def test_sums_are_exact(rng, kind):
    """int64 numpy, written with loops over the kernel, against the float64 products."""
    x = rng.integers(-128, 128, (2, 6, 5, 8))
    if kind == "conv2d":
        weights = rng.integers(-128, 128, (3, 3, 2, 8))
        attrs = {"kernel": [2, 3], "stride": [2, 1], "pad": [1, 0, 1, 1], "pad_mode": "FLOOR"}
        frame = np.pad(x, [(0, 0), (1, 1), (1, 0), (0, 0)])
        expected = np.zeros((2, 6, 3, 3), np.int64)
        for row, column in np.ndindex(6, 3):
            window = frame[:, row : row + 3, 2 * column : 2 * column + 2]
            expected[:, row, column] = np.einsum("nhwc,ohwc->no", window, weights)
    elif kind == "depthwise-conv2d":
        weights = rng.integers(-128, 128, (1, 2, 2, 8))
        attrs = {"kernel": [2, 2], "stride": [1, 1], "pad": [0, 0, 0, 0], "pad_mode": "FLOOR"}
        expected = np.zeros((2, 5, 4, 8), np.int64)
        for row, column in np.ndindex(5, 4):
            window = x[:, row : row + 2, column : column + 2]
            expected[:, row, column] = np.einsum("nhwc,hwc->nc", window, weights[0])
    else:
        weights = rng.integers(-128, 128, (7, 240))
        attrs = {"axis": 1}
        expected = np.einsum("nk,ok->no", x.reshape(2, -1), weights)
    found = engines.sums(Node("c", kind, (), {}, attrs), x, weights)
    np.testing.assert_array_equal(found, expected)
