# SPDX-License-Identifier: Apache-2.0
"""Number formats against their definitions, in numpy and in sessions, bit for bit."""

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

from opendpu.ir import NumberFormat, Quantization, QuantizedGraph, Rounding
from opendpu.ops.formats import fake_quantize
from opendpu.ops.formats.rounding import rounded
from opendpu.ops.session import Session

FORMATS = [kind for kind in NumberFormat if kind != NumberFormat.INT]


def values(seed: int = 0, shape: tuple[int, ...] = (3, 5, 7, 37)) -> np.ndarray:
    """Return numbers of all sizes, zeros, and halves of integers with their neighbours."""
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    found = rng.standard_normal(shape) * np.exp(3 * rng.standard_normal(shape))
    found = found.astype(np.float32)
    flat = found.reshape(-1)
    halves = np.arange(-40, 41, dtype=np.float32) / 2
    near = np.concatenate([halves, np.nextafter(halves, np.float32(99)),
                           np.nextafter(halves, np.float32(-99))])  # fmt: skip
    flat[: near.size] = near
    flat[near.size : near.size + 20] = 0
    return found


def in_session(array: np.ndarray, quantization: Quantization) -> np.ndarray:
    graph = QuantizedGraph("q")
    graph.add("x", "data", array.shape)
    graph.add_fix("y", "x", quantization)
    graph.outputs = ["y"]
    return Session(graph).run({"x": array})["y"]


def behind_a_pool(array: np.ndarray, quantization: Quantization) -> np.ndarray:
    """Channels are in front there."""
    graph = QuantizedGraph("q")
    graph.add("x", "data", array.shape)
    attrs = {"kernel": [1, 1], "stride": [1, 1], "pad": [0, 0, 0, 0], "pad_mode": "FLOOR"}
    graph.add("p", "maxpool2d", array.shape, {"input": ["x"]}, attrs)
    graph.add_fix("y", "p", quantization)
    graph.outputs = ["y"]
    return Session(graph).run({"x": array})["y"]


def of_fraction(value: float, rounding: Rounding) -> int:
    """Return the integer that a number becomes, in exact arithmetic."""
    exact = Fraction(value)
    low = math.floor(exact)
    high = low if exact == low else low + 1
    nearer, tie = (low if exact - low < high - exact else high), exact - low == high - exact
    toward, away = (low, high) if exact > 0 else (high, low)
    if rounding in (Rounding.FLOOR, Rounding.CEIL):
        return low if rounding == Rounding.FLOOR else high
    if rounding in (Rounding.TOWARD_ZERO, Rounding.AWAY_FROM_ZERO):
        return toward if rounding == Rounding.TOWARD_ZERO else away
    ties = {Rounding.DPU_ROUND: high, Rounding.HALF_DOWN: low, Rounding.STD_ROUND: away,
            Rounding.PY3_ROUND: low if low % 2 == 0 else high}  # fmt: skip
    return ties[rounding] if tie else nearer


@pytest.mark.parametrize("rounding", list(Rounding))
def test_roundings_are_exact(rounding):
    array = values().ravel()[:600]
    wanted = np.array([of_fraction(float(value), rounding) for value in array], np.float32)
    np.testing.assert_array_equal(rounded(array, rounding), wanted)
    wide = Quantization((1.0,), bits=24, rounding=rounding)
    np.testing.assert_array_equal(in_session(array[None], wide)[0], np.clip(wanted, *wide.limits))


@pytest.mark.parametrize("bits", [2, 4, 8, 16])
@pytest.mark.parametrize(("signed", "narrow"), [(True, False), (True, True), (False, False)])
def test_limits(bits, signed, narrow):
    found = Quantization((0.5,), bits=bits, signed=signed, narrow=narrow)
    low, high = found.limits
    assert high - low == 2**bits - 1 - narrow
    made = fake_quantize(np.array([-1e9, 1e9], np.float32), found)
    np.testing.assert_array_equal(made, [low / 2, high / 2])


@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("axis", [None, 0, 3])
def test_integers_are_those_of_onnx(signed, axis):
    """QuantizeLinear and DequantizeLinear as onnx itself computes them."""
    array = values(1)
    count = 1 if axis is None else array.shape[axis]
    rng = np.random.default_rng(2)
    scale = rng.uniform(0.01, 2, count).astype(np.float32)
    zero = rng.integers(-128 if signed else 0, 128 if signed else 256, count)
    kind = np.int8 if signed else np.uint8
    attrs = {} if axis is None else {"axis": axis}
    nodes = [helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], **attrs),
             helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"], **attrs)]  # fmt: skip
    infos = [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, array.shape)]
    given = {"s": scale, "z": zero.astype(kind)}
    inits = [onnx.numpy_helper.from_array(v if axis is not None else v.reshape(()), n)
             for n, v in given.items()]  # fmt: skip
    outs = [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, array.shape)]
    model = helper.make_model(helper.make_graph(nodes, "g", infos, outs, inits))
    wanted = ReferenceEvaluator(model).run(None, {"x": array})[0]
    quantization = Quantization(
        tuple(map(float, scale)), tuple(map(int, zero)), axis, signed=signed,
        rounding=Rounding.PY3_ROUND,
    )  # fmt: skip
    np.testing.assert_array_equal(fake_quantize(array, quantization), wanted)
    np.testing.assert_array_equal(in_session(array, quantization), wanted)
    np.testing.assert_array_equal(behind_a_pool(array, quantization), wanted)


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [(NumberFormat.FLOAT16, np.float16), (NumberFormat.BFLOAT16, ml_dtypes.bfloat16)],
)
def test_floating_point_is_that_of_numpy_and_ml_dtypes(kind, dtype):
    array = values(3)
    array.reshape(-1)[-4:] = [6e-8, -1e-40, 65504, 3e4]
    wanted = array.astype(dtype).astype(np.float32)
    np.testing.assert_array_equal(fake_quantize(array, Quantization((1.0,), number_format=kind)),
                                  wanted)  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "largest"), [(NumberFormat.FLOAT16, 65504.0), (NumberFormat.BFLOAT16, 3.3895314e38)]
)
def test_floating_point_has_no_infinities(kind, largest):
    array = np.array([3.4e38, -3.4e38], np.float32)
    found = fake_quantize(array, Quantization((1.0,), number_format=kind))
    np.testing.assert_array_equal(found, np.array([largest, -largest], np.float32))


def scalar_block(block: np.ndarray, mantissa: int, pair: int) -> list[float]:
    """Return one block by the definition, number by number."""
    exponent = max(math.frexp(float(np.abs(block).max()))[1] - 1, -119)
    made = []
    for index, value in enumerate(block):
        shift = 0
        if pair:
            start = index - index % pair
            near = float(np.abs(block[start : start + pair]).max())
            shift = int(near < 2.0**exponent)
        step = 2.0 ** (exponent - shift - mantissa + 1)
        most = 2**mantissa - 1
        made.append(max(-most, min(most, round(Fraction(float(value)) / Fraction(step)))) * step)
    return made


@pytest.mark.parametrize(
    ("kind", "size", "mantissa", "pair"),
    [(NumberFormat.BFP16, 8, 7, 0), (NumberFormat.MX6, 16, 4, 2), (NumberFormat.MX9, 16, 7, 2)],
)
def test_block_floating_point_by_its_definition(kind, size, mantissa, pair):
    array = values(4, (40, 37))
    found = fake_quantize(array, Quantization((1.0,), number_format=kind))
    for row, made in zip(array, found, strict=True):
        wanted: list[float] = []
        for start in range(0, row.size, size):
            wanted += scalar_block(row[start : start + size], mantissa, pair)
        np.testing.assert_array_equal(made, np.array(wanted, np.float32))


@pytest.mark.parametrize("kind", FORMATS)
def test_sessions_compute_the_same(kind):
    array, quantization = values(5), Quantization((1.0,), number_format=kind)
    wanted = fake_quantize(array, quantization)
    np.testing.assert_array_equal(in_session(array, quantization), wanted)
    np.testing.assert_array_equal(behind_a_pool(array, quantization), wanted)


def test_powers_of_two_of_all_exponents_have_their_own_block_exponent():
    """The logarithm of a power of two may come out a little too small or too large."""
    powers = np.ldexp(np.float32(1), np.arange(-126, 128)).astype(np.float32)
    below = np.nextafter(powers[1:], np.float32(0))
    array = np.concatenate([powers, below]).reshape(-1, 1)
    for kind in (NumberFormat.BFP16, NumberFormat.MX9):
        quantization = Quantization((1.0,), number_format=kind)
        np.testing.assert_array_equal(
            in_session(array, quantization), fake_quantize(array, quantization)
        )


def test_formats_without_scale_have_no_fix_point():
    assert not Quantization((1.0,), number_format=NumberFormat.FLOAT16).is_power_of_two
    assert not Quantization((1.0, 0.5), axis=0).is_power_of_two
    assert Quantization((0.25,)).is_power_of_two


@pytest.mark.parametrize("lies", [
    lambda a: a, lambda a: a.transpose(0, 2, 3, 1), lambda a: a[:, ::2], lambda a: a[..., ::-1],
    lambda a: a[:, :0], lambda a: a[0, 0, 0, 0],
])  # fmt: skip
def test_arrays_of_any_order_of_axes_and_many_values(lies):
    array = lies(values(shape=(2, 40, 37, 41)))
    made = fake_quantize(array, Quantization.power_of_two(2))
    wanted = np.clip(np.floor(array.astype(np.float64) * 4 + 0.5), -128, 127) / 4
    np.testing.assert_array_equal(made, wanted)
    assert made.shape == array.shape and made.dtype == np.float32
