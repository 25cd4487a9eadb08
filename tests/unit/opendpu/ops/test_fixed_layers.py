# SPDX-License-Identifier: Apache-2.0
"""Layers on integers, against 64-bit sums and the contract's rounding, where float32 has an end."""

import numpy as np
import pytest

from opendpu.ir import FixedGraph, TensorType
from opendpu.ops.session import Session
from opendpu_arch import numerics
from opendpu_arch.errors import UnsupportedError
from opendpu_arch.isa import ActType

ACTIVATIONS = {
    "NONE": ActType.NONE, "RELU": ActType.RELU, "RELU6": ActType.RELU6,
    "LEAKYRELU": ActType.LEAKYRELU,
}  # fmt: skip


class Layer:
    """A convolution of a whole map, so that a result is one product of matrices."""

    def __init__(
        self, w: np.ndarray, bias: np.ndarray | None = None, *,
        points: tuple[int, int, int] = (0, 0, 0), bias_point: int = 0, group: int = 1,
        nonlinear: str = "NONE", kind: str = "conv2d-fix",
    ) -> None:  # fmt: skip
        outputs, height, width, inputs = w.shape
        self.w, self.bias, self.group = w, bias, group
        self.points, self.bias_point, self.nonlinear = points, bias_point, nonlinear
        channels = inputs * group
        if kind == "depthwise-conv2d-fix":
            outputs = channels
        graph = FixedGraph("layer")
        graph.add("x", "data-fix", TensorType.int8((1, height, width, channels), points[0]))
        graph.add("w", "const-fix", TensorType.int8(w.shape, points[1]), value=w)
        given = {"input": ["x"], "weights": ["w"]}
        if bias is not None:
            graph.add("b", "const-fix", TensorType.int8(bias.shape, bias_point), value=bias)
            given["bias"] = ["b"]
        attrs = {
            "kernel": [width, height], "stride": [1, 1], "pad": [0] * 4, "group": group,
            "nonlinear": nonlinear,
        }  # fmt: skip
        graph.add("y", kind, TensorType.int8((1, 1, 1, outputs), points[2]), given, attrs)
        graph.outputs = ["y"]
        self.session = Session(graph, threads=1)

    def sums(self, x: np.ndarray) -> np.ndarray:
        """Return the 64-bit sums of products."""
        parts = np.split(x.astype(np.int64), self.group, axis=3)
        kernels = np.split(self.w.astype(np.int64), self.group, axis=0)
        pairs = zip(parts, kernels, strict=True)
        return np.concatenate([np.tensordot(k, p[0], 3) for p, k in pairs])

    def check(self, x: np.ndarray) -> np.ndarray:
        """Assert that a result is that of the contract; return it."""
        found = self.session.run({"x": x})["y"]
        assert found.dtype == np.int8
        i, w, o = self.points
        bias = self.bias if self.bias is not None else np.zeros(1, np.int8)
        wanted = numerics.requantize(
            self.sums(x), bias, shift_bias=w + i - self.bias_point + 1, shift_cut=w + i - o,
            act_type=ACTIVATIONS[self.nonlinear],
        )  # fmt: skip
        np.testing.assert_array_equal(found.ravel(), wanted)
        return found


def bytes_of(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.integers(-128, 128, shape, np.int8)


@pytest.mark.parametrize("nonlinear", ACTIVATIONS)
@pytest.mark.parametrize("group", [1, 2])
def test_partial_sums_beyond_what_float32_holds(rng, nonlinear, group):
    """The sums themselves are small, so that their last bits decide, but not on the way."""
    half = 8 * 16 * 512  # much more than vectors have lanes
    w = rng.integers(120, 128, (16, half))
    w = np.concatenate([w, -w], 1).astype(np.int8).reshape(16, 16, 16, 512)
    layer = Layer(w, bytes_of(rng, 16), points=(7, 7, 11), bias_point=14, group=group,
                  nonlinear=nonlinear)  # fmt: skip
    found = []
    for _ in range(4):
        x = rng.integers(119, 127, (1, 8, 16, 512 * group)).astype(np.int8)
        other = x.copy()
        for step in (-1, 1):
            other.ravel()[rng.integers(0, x.size, 20 * group)] += step
        found.append(layer.check(np.concatenate([x, other], 1)))
    assert len(np.unique(found)) > 5  # they are no constants


@pytest.mark.parametrize("nonlinear", ACTIVATIONS)
def test_every_shift(rng, nonlinear):
    for cut in range(20):
        w = bytes_of(rng, 5, 1, 2, 3)
        for shift_bias in (0, 1, 7, 20):
            point = 9 + 4 - shift_bias + 1
            layer = Layer(w, bytes_of(rng, 5), points=(9, 4, 13 - cut), bias_point=point,
                          nonlinear=nonlinear)  # fmt: skip
            layer.check(bytes_of(rng, 1, 1, 2, 3))


def test_halves_go_up():
    w = np.int8([[[[1]]], [[[-1]]]])
    layer = Layer(w, points=(1, 0, 0))
    assert layer.check(np.int8([[[[1]]]])).ravel().tolist() == [1, 0]
    assert layer.check(np.int8([[[[3]]]])).ravel().tolist() == [2, -1]


def test_a_depthwise_layer(rng):
    w = bytes_of(rng, 1, 3, 5, 8)
    layer = Layer(w, kind="depthwise-conv2d-fix", points=(3, 2, 1))
    x = bytes_of(rng, 1, 3, 5, 8)
    found = layer.session.run({"x": x})["y"].ravel()
    total = (x.astype(np.int64) * w).sum(axis=(0, 1, 2))
    wanted = numerics.requantize_without_bias(total, shift_cut=4)
    np.testing.assert_array_equal(found, wanted)


def test_an_activation_that_no_engine_has():
    w = np.int8([[[[1]]]])
    with pytest.raises(
        UnsupportedError,
        match=r"op 'y' \(conv2d-fix\): nonlinear is 'HSWISH', but must be one of NONE, RELU, RELU6",
    ):
        Layer(w, nonlinear="HSWISH")


def test_what_is_not_a_number_becomes_zero():
    """As the contract has it, so that no op behind meets it: ``0 / 0`` on the CPU is NaN."""
    graph = FixedGraph("quotient")
    graph.add("x", "data", TensorType((1, 4), np.dtype(np.float32)))
    attrs = {"fix_point": 2, "bit_width": 8, "if_signed": True, "round_mode": "DPU_ROUND"}
    graph.add("f", "float2fix", TensorType.int8((1, 4), 2), {"input": ["x"]}, attrs)
    graph.add("y", "hard-sigmoid-fix", TensorType.int8((1, 4), 7), {"input": ["f"]})
    graph.outputs = ["f", "y"]
    value = np.array([[np.nan, np.inf, -np.inf, 1.25]], np.float32)
    found = Session(graph, threads=1).run({"x": value})
    np.testing.assert_array_equal(found["f"], numerics.quantize(value, 2))
    np.testing.assert_array_equal(found["f"], [[0, 127, -128, 5]])
    np.testing.assert_array_equal(found["y"], [[64, 127, 0, 91]])
