# SPDX-License-Identifier: Apache-2.0
"""Every function against its definition in exact fractions."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendpu_arch import numerics
from opendpu_arch.isa import ActType

BYTE = st.integers(-128, 127)
SHIFT = st.integers(0, 63)
ACC = st.integers(-(1 << 35), 1 << 35) | st.integers(-(1 << 14), 1 << 14)


def dpu_round(x: Fraction) -> int:
    return 127 if x > 127 else -128 if x < -128 else math.floor(x + Fraction(1, 2))


def power(exponent: int) -> Fraction:
    return Fraction(2) ** exponent


def activate(v: Fraction, act: int) -> Fraction:
    return {
        ActType.NONE: v,
        ActType.RELU: max(v, Fraction(0)),
        ActType.LEAKYRELU: v * 26 / 256 if v < 0 else v,
        ActType.RELU6: min(max(v, Fraction(0)), Fraction(96)),
    }[act]


ACT = st.sampled_from([ActType.NONE, ActType.RELU, ActType.LEAKYRELU, ActType.RELU6])


@pytest.mark.parametrize(
    ("x", "right", "expected"),
    [(5, 1, 3), (-5, 1, -2), (-6, 2, -1), (6, 2, 2), (3, 0, 3), (3, -4, 48), (-1, 63, 0)],
)
def test_halves_round_up(x: int, right: int, expected: int) -> None:
    assert numerics.shift_round(np.array(x), right) == expected


def test_saturate() -> None:
    y = numerics.saturate(np.array([-(1 << 40), -129, -128, 127, 128, 1 << 40]))
    assert y.dtype == np.int8
    assert y.tolist() == [-128, -128, -128, 127, 127, 127]


@given(ACC, BYTE, st.integers(0, 20), SHIFT, ACT)
def test_requantize(acc: int, bias: int, shift_bias: int, shift_cut: int, act: ActType) -> None:
    v = Fraction(2 * acc + bias * 2**shift_bias, 2 ** (shift_cut + 1))
    y = numerics.requantize(
        np.array([acc]),
        np.array([bias], np.int8),
        shift_bias=shift_bias,
        shift_cut=shift_cut,
        act_type=act,
    )
    assert y.dtype == np.int8
    assert y.tolist() == [dpu_round(activate(v, act))]


@given(ACC, SHIFT, ACT)
def test_requantize_without_bias(acc: int, shift_cut: int, act: ActType) -> None:
    y = numerics.requantize_without_bias(np.array(acc), shift_cut=shift_cut, act_type=act)
    assert y == dpu_round(activate(Fraction(acc, 2**shift_cut), act))


def test_leaky_relu_of_conv_is_rounded_once() -> None:
    # -10 * 26/256 = -1.02 gives -1; rounding -9.5 up first would give -9 * 26/256 = -0.91 too,
    # but -4.9 * 26/256 = -0.498 must give 0, and -5 * 26/256 = -0.508 must give -1
    y = numerics.requantize(
        np.array([-49, -50]), np.zeros(1, np.int8), shift_bias=0, shift_cut=0, act_type=3
    )
    assert y.tolist() == [-5, -5]
    y = numerics.requantize_without_bias(np.array([-78, -80]), shift_cut=4, act_type=3)
    assert y.tolist() == [0, -1]


def test_an_unsupported_activation_is_refused() -> None:
    with pytest.raises(ValueError, match="act_type is 5, but must be NONE, RELU, LEAKYRELU or"):
        numerics.requantize_without_bias(np.array(1), shift_cut=0, act_type=ActType.HSIGMOID)


def test_weights_16_are_little_endian_and_signed() -> None:
    words = np.zeros((3, 4), np.int8)
    words[:, :2] = [[1, 0], [-1, -1], [-128, 127]]
    words[:, 2:] = 99
    assert numerics.weights_16(words).tolist() == [1, -1, 0x7F80]
    assert numerics.weights_16(words).dtype == np.int16


@given(st.integers(-(1 << 23), 1 << 23), st.integers(0, 255), SHIFT)
def test_average_pool(total: int, factor: int, shift_cut: int) -> None:
    signed = factor - 256 if factor > 127 else factor
    scale = power(8 - shift_cut if shift_cut >= 8 else shift_cut)
    y = numerics.average_pool(np.array(total), multi_factor=factor, shift_cut=shift_cut)
    assert y == dpu_round(total * signed * scale)


@given(BYTE, SHIFT)
def test_max_pool(maximum: int, shift_cut: int) -> None:
    scale = power(8 - shift_cut if shift_cut >= 8 else shift_cut)
    y = numerics.max_pool(np.array(maximum, np.int8), shift_cut=shift_cut)
    assert y == dpu_round(maximum * scale)


@given(
    st.integers(-8192, 8191), st.integers(1, 8), st.sampled_from([1, 2, 4, 8]), st.integers(0, 15)
)
def test_pool_average(total: int, kernel_w: int, kernel_h: int, shift_cut: int) -> None:
    factor = {3: Fraction(28, 256), 5: Fraction(10, 256), 6: Fraction(7, 256),
              7: Fraction(21, 1024)}.get(kernel_w, Fraction(1, kernel_w * kernel_h))  # fmt: skip
    scale = power(8 - shift_cut if shift_cut >= 8 else shift_cut)
    y = numerics.pool_average(
        np.array(total), kernel_h=kernel_h, kernel_w=kernel_w, shift_cut=shift_cut
    )
    assert y == dpu_round(total * factor * scale)


@given(BYTE, BYTE, SHIFT, SHIFT)
def test_prelu_and_leaky_relu(x: int, factor: int, p: int, n: int) -> None:
    scale = [power(32 - s if s >= 32 else s) for s in (p, n)]
    expected = dpu_round(x * factor * scale[1] if x < 0 else x * scale[0])
    x_array = np.array([x], np.int8)
    shifts = {"shift_prelu_p": p, "shift_prelu_n": n}
    assert numerics.prelu(x_array, np.array([factor], np.int8), **shifts).tolist() == [expected]
    assert numerics.leaky_relu(x_array, multi_factor=factor & 255, **shifts).tolist() == [expected]


@given(BYTE, st.integers(0, 20), SHIFT)
def test_hard_sigmoid(x: int, shift_bias: int, shift_cut: int) -> None:
    line = min(2**32, max(0, x * 2731 + 3 * 2731 * 2**shift_bias))
    y = numerics.hard_sigmoid(np.array(x, np.int8), shift_bias=shift_bias, shift_cut=shift_cut)
    assert y == dpu_round(Fraction(line, 2**shift_cut))


@pytest.mark.parametrize(
    ("shift_cut", "largest"), [(25, 127), (26, 64), (27, 32), (32, 1), (33, 1), (34, 0)]
)
def test_hard_sigmoid_ends_at_two_to_the_32(shift_cut: int, largest: int) -> None:
    y = numerics.hard_sigmoid(np.array(127, np.int8), shift_bias=20, shift_cut=shift_cut)
    assert y == largest


@given(
    st.lists(st.tuples(BYTE, st.integers(0, 15)), min_size=1, max_size=4),
    st.integers(0, 31),
    st.booleans(),
)
def test_eltwise_add(inputs: list[tuple[int, int]], shift_write: int, relu: bool) -> None:
    f = power(16 - shift_write if shift_write >= 16 else shift_write)
    v = sum(math.floor(Fraction(x * 4, 2**s)) for x, s in inputs) * f / 4
    y = numerics.eltwise_add(
        [np.array(x, np.int8) for x, _ in inputs],
        shift_read=[s for _, s in inputs],
        shift_write=shift_write,
        relu=relu,
    )
    assert y == dpu_round(max(v, Fraction(0)) if relu else v)


@given(BYTE, BYTE, st.integers(0, 15), st.integers(0, 15), st.integers(0, 31), st.booleans())
def test_eltwise_mult(a: int, b: int, s: int, t: int, shift_write: int, relu: bool) -> None:
    f = power(16 - shift_write if shift_write >= 16 else shift_write)
    v = math.floor(Fraction(a * 4, 2**s)) * math.floor(Fraction(b * 4, 2**t)) * f / 16
    y = numerics.eltwise_mult(
        [np.array(a, np.int8), np.array(b, np.int8)],
        shift_read=[s, t],
        shift_write=shift_write,
        relu=relu,
    )
    assert y == dpu_round(max(v, Fraction(0)) if relu else v)


@given(st.integers(0, 255), st.integers(0, 255), st.integers(1, 3))
def test_subtract_mean(x: int, mean: int, mode: int) -> None:
    y = numerics.subtract_mean(np.array([x], np.uint8), np.array([mean], np.uint8), mode_avg=mode)
    assert y.tolist() == [(((x - mean) & 0xFFFFFFFF) >> (mode - 1)) & 255]


def test_argmax_takes_the_first_of_equals() -> None:
    pixels = np.array([[-3, 7, 7, -128], [-5, -5, -6, -5]], np.int8)
    assert numerics.argmax(pixels, value=False).tolist() == [1, 0]
    assert numerics.argmax(pixels, value=True).tolist() == [7, 251]
    late = np.zeros((1, 300), np.int8)
    late[0, 299] = 1
    assert numerics.argmax(late, value=False).tolist() == [299 & 255]


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("DPU_ROUND", [-2, -1, 0, 1, 2, 3, 3]),
        ("STD_ROUND", [-3, -2, -1, 1, 2, 3, 3]),
        ("PY3_ROUND", [-2, -2, 0, 0, 2, 2, 3]),
    ],
)
def test_round_modes(mode: str, expected: list[int]) -> None:
    x = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 2.6])
    assert numerics.round_float(x, mode).tolist() == expected


@pytest.mark.parametrize("mode", ["DPU_ROUND", "STD_ROUND"])
def test_rounding_is_exact_just_below_a_half(mode: str) -> None:
    below = np.nextafter(0.5, 0)  # adding 0.5 in floating point would give 1
    assert numerics.round_float(np.array([below]), mode).tolist() == [0]


def test_an_unknown_round_mode_is_refused() -> None:
    with pytest.raises(ValueError, match="round_mode is 'CEIL', but must be DPU_ROUND, STD_ROUND"):
        numerics.round_float(np.zeros(1), "CEIL")


def test_quantize_and_dequantize() -> None:
    x = np.array([0.24, 0.25, -0.25, 100.0, -100.0, np.nan], np.float32)
    assert numerics.quantize(x, 1).tolist() == [0, 1, 0, 127, -128, 0]
    assert numerics.quantize(x, -1, bit_width=4).tolist() == [0, 0, 0, 7, -8, 0]
    assert numerics.quantize(x, 1, signed=False).tolist() == [0, 1, 0, 200, 0, 0]
    back = numerics.dequantize(np.array([-128, 3], np.int8), -2)
    assert (back.dtype, back.tolist()) == (np.float32, [-512.0, 12.0])


@given(st.integers(-128, 127), st.integers(-8, 12), st.sampled_from(["DPU_ROUND", "PY3_ROUND"]))
def test_quantize_inverts_dequantize(q: int, fix_point: int, mode: str) -> None:
    x = numerics.dequantize(np.array([q], np.int8), fix_point)
    assert numerics.quantize(x, fix_point, round_mode=mode).tolist() == [q]


def test_a_table_is_ordered_by_bytes() -> None:
    table = np.arange(256).astype(np.uint8).view(np.int8)  # every byte stays
    y = np.array([[0, 1, 127], [-128, -127, -1]], np.int8)
    np.testing.assert_array_equal(numerics.look_up(y, table), y)
    negated = np.clip(-table.astype(np.int16), -128, 127).astype(np.int8)
    assert numerics.look_up(y, negated).tolist() == [[0, -1, -127], [127, 127, 1]]


def test_shifts_of_channels_add_to_those_of_the_instruction(rng: np.random.Generator) -> None:
    acc = rng.integers(-(1 << 24), 1 << 24, (40, 32))
    bias = rng.integers(-128, 128, 32).astype(np.int8)
    shifts = rng.integers(0, 256, 32).astype(np.uint8)
    for act_type in (ActType.NONE, ActType.RELU, ActType.LEAKYRELU, ActType.RELU6):
        for shift_bias, shift_cut in ((0, 0), (9, 12), (20, 17), (3, 60)):
            y = numerics.requantize_by_channel(
                acc, bias, shifts.view(np.int8),
                shift_bias=shift_bias, shift_cut=shift_cut, act_type=act_type,
            )  # fmt: skip
            for c in range(32):
                own = {
                    "shift_bias": min(20, shift_bias + (int(shifts[c]) >> 4)),
                    "shift_cut": shift_cut + (int(shifts[c]) & 15),
                }
                wanted = numerics.requantize(acc[:, c], bias[c], act_type=act_type, **own)
                np.testing.assert_array_equal(y[:, c], wanted)
