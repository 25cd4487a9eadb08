# SPDX-License-Identifier: Apache-2.0
"""Operators of quantized TFLite files with their own scales, to the bit those of LiteRT's
reference kernels."""

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert", reason="LiteRT is not installed (opendpu[dev])")

from scaled_draws import (
    RELU,
    RELU6,
    RELU_N1_TO_1,
    SAME,
    SAMPLES,
    VALID,
    Draws,
    UnsignedDraws,
    X,
    feeds_of,
    reference,
)
from tflite_files import options

from opendpu.frontend.tflite import load_tflite
from opendpu.integer import IntegerNetwork
from opendpu_arch.errors import UnsupportedError


def convolution(net, *, per_channel=True, **given):
    x = net.integers("x", X)
    w, scales = net.weights("w", (5, 3, 2, 4), 0, per_channel)
    b = net.bias("b", 5, scales, net.scale_of(x))
    stride = given.get("strideH", 1)
    rows = (7 + stride - 1) // stride if given["padding"] == SAME else (7 - 3) // stride + 1
    columns = 6 if given["padding"] == SAME else 5
    made = options("Conv2D", **{"strideH": 1, "strideW": 1, **given})
    net.result("CONV_2D", [x, w, b], made, (1, rows, columns, 5))


def depthwise(net, *, multiplier=1, activation=0):
    x = net.integers("x", X)
    w, scales = net.weights("w", (1, 3, 3, 4 * multiplier), 3, True)
    b = net.bias("b", 4 * multiplier, scales, net.scale_of(x))
    made = options("DepthwiseConv2D", padding=SAME, strideH=2, strideW=2,
                   depthMultiplier=multiplier, fusedActivationFunction=activation)  # fmt: skip
    net.result("DEPTHWISE_CONV_2D", [x, w, b], made, (1, 4, 3, 4 * multiplier))


def dense(net, *, per_channel=False, activation=0):
    x = net.integers("x", (1, 24))
    w, scales = net.weights("w", (9, 24), 0, per_channel)
    b = net.bias("b", 9, scales, net.scale_of(x))
    made = options("FullyConnected", fusedActivationFunction=activation)
    net.result("FULLY_CONNECTED", [x, w, b], made, (1, 9))


def dense_of_rows(net, *, per_channel=True):
    x = net.integers("x", (1, 70, 24))
    w, scales = net.weights("w", (9, 24), 0, per_channel)
    b = net.bias("b", 9, scales, net.scale_of(x))
    made = options("FullyConnected", keepNumDims=True)
    net.result("FULLY_CONNECTED", [x, w, b], made, (1, 70, 9))


def two(kind):
    def make(net, *, activation=0):
        a, b = net.integers("a", X), net.integers("b", X)
        largest = max(net.scale_of(a), net.scale_of(b))
        net.result(
            f"{kind.upper()}", [a, b], options(kind, fusedActivationFunction=activation), X,
            scale=largest * net.scale(0.9, 2.5),
        )  # fmt: skip

    return make


def pool(kind):
    def make(net, *, padding=VALID, activation=0):
        x = net.integers("x", X)
        made = options("Pool2D", padding=padding, strideH=2, strideW=1, filterHeight=3,
                       filterWidth=2, fusedActivationFunction=activation)  # fmt: skip
        net.alike(kind, [x], made, (1, 4 if padding == SAME else 3, 6 if padding == SAME else 5, 4))

    return make


def mean(net, *, keep=True, alike=False, along=(1, 2)):
    x = net.integers("x", X)
    axes = net.const("axes", np.array(along, np.int32))
    made = options("Reducer", keepDims=keep)
    shape = [1 if a in along else n for a, n in enumerate(X) if keep or a not in along]
    if alike:
        net.alike("MEAN", [x, axes], made, tuple(shape))
    else:
        net.result("MEAN", [x, axes], made, tuple(shape),
                   scale=net.scale_of(x) * net.scale(0.3, 2.0))  # fmt: skip


def reshape(net):
    net.alike("RESHAPE", [net.integers("x", X), net.const("s", np.array([1, 42, 4], np.int32))],
              None, (1, 42, 4))  # fmt: skip


def pad(net):
    amounts = net.const("p", np.array([[0, 0], [1, 2], [0, 3], [0, 0]], np.int32))
    net.alike("PAD", [net.integers("x", X), amounts], None, (1, 10, 9, 4))


def activation(kind):
    def make(net):
        x = net.integers("x", X)
        net.result(kind, [x], None, X, scale=net.scale_of(x) * net.scale(1.01, 2.0))

    return make


def function(kind, made=None, **quantization):
    """One whose table the compiler computes, of numbers or as the kernel does in integers."""

    def make(net):
        x = net.integers("x", X)
        given = quantization or {"scale": net.scale_of(x) * net.scale(0.2, 2.0)}
        net.result(kind, [x], made, X, **given)

    return make


def of_numbers_above(kind):
    """One that LiteRT's kernels compute of numbers that are not negative alone."""

    def make(net):
        scale = net.scale(0.01, 0.2)
        x = net.data("x", X, np.int8, scale, -128)
        most = {"SQRT": (255 * scale) ** 0.5, "RSQRT": scale**-0.5, "LOG": 4.0}[kind]
        net.result(kind, [x], None, X, scale=most / 256 * net.scale(0.7, 2.0))

    return make


def squared_difference(net, *, shape=X):
    a, b = net.integers("a", X), net.integers("b", shape)
    largest = max(net.scale_of(a), net.scale_of(b))
    net.result("SQUARED_DIFFERENCE", [a, b], None, X, scale=200 * largest**2 * net.scale(0.2, 2.0))


def absolute(net, *, alike):
    x = net.integers("x", X)
    if alike:
        net.alike("ABS", [x], None, X)
    else:
        net.result("ABS", [x], None, X, scale=net.scale_of(x) * net.scale(0.5, 2.0))


def with_constant(kind):
    def make(net):
        x = net.integers("x", X)
        value = net.random.integers(-128, 128, ()).astype(np.int8)
        c = net.const("c", value, [net.scale(0.01, 0.2)], [net.zero()])
        net.result(kind.upper(), [x, c], options(kind), X,
                   scale=net.scale_of(x) * net.scale(0.5, 3.0))  # fmt: skip

    return make


def softmax(net):
    net.result("SOFTMAX", [net.integers("x", (1, 13))], options("Softmax", beta=1.0), (1, 13),
               scale=1 / 256, zero=-128)  # fmt: skip


def requantize(net):
    x = net.integers("x", X)
    net.result("QUANTIZE", [x], None, X, scale=net.scale_of(x) * net.scale(1.01, 4.0))


def concatenation(net):
    a = net.integers("a", X)
    b = net.data("b", (1, 7, 6, 3), np.int8, net.scale_of(a), net.zero_of(a))
    net.alike("CONCATENATION", [a, b], options("Concatenation", axis=3), (1, 7, 6, 7))


CASES = {
    "conv same": (convolution, {"padding": SAME}),
    "conv valid": (convolution, {"padding": VALID, "strideH": 2}),
    "conv relu": (convolution, {"padding": SAME, "strideH": 2, "fusedActivationFunction": RELU}),
    "conv relu6": (convolution, {"padding": SAME, "fusedActivationFunction": RELU6}),
    "conv relu n1 to 1": (
        convolution,
        {"padding": SAME, "fusedActivationFunction": RELU_N1_TO_1},
    ),
    "conv one scale": (convolution, {"padding": SAME, "per_channel": False}),
    "depthwise": (depthwise, {}),
    "depthwise by two": (depthwise, {"multiplier": 2}),
    "depthwise relu": (depthwise, {"activation": RELU}),
    "dense": (dense, {}),
    "dense relu": (dense, {"activation": RELU}),
    "dense per channel": (dense, {"per_channel": True}),
    "dense of rows": (dense_of_rows, {"per_channel": False}),
    "dense of rows per channel": (dense_of_rows, {}),
    "add": (two("Add"), {}),
    "add relu": (two("Add"), {"activation": RELU}),
    "sub": (two("Sub"), {}),
    "sub relu6": (two("Sub"), {"activation": RELU6}),
    "mul": (two("Mul"), {}),
    "mul relu6": (two("Mul"), {"activation": RELU6}),
    "average pool": (pool("AVERAGE_POOL_2D"), {}),
    "average pool same": (pool("AVERAGE_POOL_2D"), {"padding": SAME}),
    "average pool relu": (pool("AVERAGE_POOL_2D"), {"activation": RELU}),
    "max pool": (pool("MAX_POOL_2D"), {"padding": SAME}),
    "max pool relu6": (pool("MAX_POOL_2D"), {"activation": RELU6}),
    "mean": (mean, {}),
    "mean dropping axes": (mean, {"keep": False}),
    "mean at the same scale": (mean, {"alike": True}),
    "mean at the same scale dropping axes": (mean, {"keep": False, "alike": True}),
    "mean of columns at the same scale": (mean, {"alike": True, "along": (2,)}),
    "mean of channels": (mean, {"along": (3,)}),
    "mean of channels at the same scale": (mean, {"along": (3,), "alike": True, "keep": False}),
    "mean of all": (mean, {"along": (1, 2, 3)}),
    "squared difference": (squared_difference, {}),
    "squared difference from a column": (squared_difference, {"shape": (1, 7, 6, 1)}),
    "reshape": (reshape, {}),
    "pad": (pad, {}),
    "relu": (activation("RELU"), {}),
    "relu6": (activation("RELU6"), {}),
    "leaky relu": (function("LEAKY_RELU", options("LeakyRelu", alpha=0.2)), {}),
    "hard swish": (function("HARD_SWISH"), {}),
    "logistic": (function("LOGISTIC", scale=1 / 256, zero=-128), {}),
    "tanh": (function("TANH", scale=1 / 128, zero=0), {}),
    "square root": (of_numbers_above("SQRT"), {}),
    "reciprocal root": (of_numbers_above("RSQRT"), {}),
    "logarithm": (of_numbers_above("LOG"), {}),
    "size": (absolute, {"alike": False}),
    "size at the same scale": (absolute, {"alike": True}),
    "sum with a constant": (with_constant("Add"), {}),
    "product with a constant": (with_constant("Mul"), {}),
    "softmax": (softmax, {}),
    "requantize": (requantize, {}),
    "concatenation": (concatenation, {}),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("seed", range(3))
def test_operators_compute_what_the_reference_kernels_do(case, seed, tmp_path):
    make, given = CASES[case]
    net = Draws().drawn(seed)
    make(net, **given)
    path = net.write(tmp_path / "op.tflite", ["y"])
    feeds = feeds_of(net, net.random)
    expected = reference(path, feeds)["y"]
    network = IntegerNetwork(load_tflite(path, any_scale=True), scaled=True)
    kinds = {node.kind for node in network.graph}
    assert not {"fix2float", "float2fix"} & kinds, kinds
    (found,) = network.run(feeds).values()
    assert len(np.unique(expected)) > 2
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    "case",
    [
        "conv same", "conv relu6", "depthwise by two", "dense relu", "dense of rows", "add", "mul",
        "max pool", "mean", "concatenation", "requantize",
    ],
)  # fmt: skip
def test_operators_in_uint8_compute_what_the_reference_kernels_do(case, tmp_path):
    make, given = CASES[case]
    net = UnsignedDraws().drawn(5)
    if case == "concatenation":
        a = net.integers("a", X)
        b = net.data("b", (1, 7, 6, 3), np.uint8, net.scale_of(a), net.zero_of(a))
        net.alike("CONCATENATION", [a, b], options("Concatenation", axis=3), (1, 7, 6, 7))
    else:
        make(net, **given)
    path = net.write(tmp_path / "op.tflite", ["y"])
    feeds = feeds_of(net, net.random)
    expected = reference(path, feeds)["y"]
    network = IntegerNetwork(load_tflite(path, any_scale=True), scaled=True)
    signed = {name: (array ^ 128).view(np.int8) for name, array in feeds.items()}
    (found,) = network.run(signed).values()
    assert len(np.unique(expected)) > 2
    np.testing.assert_array_equal(found, (expected ^ 128).view(np.int8))


@pytest.mark.parametrize("halves", [1, 2, 4])
def test_halves_are_rounded_as_the_reference_kernels_do(halves, tmp_path):
    """Twice in a convolution, once in a fully connected layer."""
    for kind, shape in (("CONV_2D", (1, 1, 1, 1)), ("FULLY_CONNECTED", (1, 1))):
        net = Draws().drawn(0)
        x = net.data("x", shape, np.int8, 1.0, 0)
        one = net.const("w", np.ones(shape, np.int8), [1.0], [0])
        zero = net.const("b", np.zeros(1, np.int32), [1.0], [0])
        given = options("Conv2D", strideH=1, strideW=1) if "CONV" in kind else (
            options("FullyConnected"))  # fmt: skip
        net.result(kind, [x, one, zero], given, shape, 2.0**halves, 3)
        path = net.write(tmp_path / "halves.tflite", ["y"])
        every = {"x": np.arange(-128, 128).astype(np.int8).reshape(-1, *shape[1:])}
        network = IntegerNetwork(load_tflite(path, any_scale=True), scaled=True)
        (found,) = network.run(every).values()
        np.testing.assert_array_equal(found, reference(path, every)["y"])


def test_conversions_are_at_the_borders(tmp_path, rng):
    net = Draws().drawn(2)
    x = net.data("x", (1, 9))
    q = net.op("QUANTIZE", [x], ["q"], dtype=np.int8, shape=(1, 9), scale=0.13, zero=-7)
    w, scales = net.weights("w", (5, 9), 0, False)
    b = net.bias("b", 5, scales, 0.13)
    y = net.result("FULLY_CONNECTED", [q, w, b], options("FullyConnected"), (1, 5))
    net.op("DEQUANTIZE", [y], ["real"], shape=(1, 5))
    path = net.write(tmp_path / "borders.tflite", ["real"])
    feeds = {"x": (rng.integers(-40, 40, (SAMPLES, 9)) * 0.065).astype(np.float32)}
    expected = reference(path, feeds)["real"]
    network = IntegerNetwork(load_tflite(path, any_scale=True), scaled=True)
    (found,) = network.run(feeds).values()
    stored = found if found.dtype == np.float32 else (
        (found.astype(np.float32) - np.float32(net.zero_of("y"))) * np.float32(net.scale_of("y"))
    )  # fmt: skip
    np.testing.assert_array_equal(stored, expected)


def test_large_biases_keep_all_bits(tmp_path):
    net = Draws().drawn(4)
    x = net.data("x", (1, 4), np.int8, 0.5, 0)
    w = net.const("w", np.eye(4, dtype=np.int8), [2**-20], [0])
    values = np.array([(1 << 24) + 1, -(1 << 24) - 1, (1 << 26) + 3, -(1 << 27) + 1], np.int32)
    b = net.const("b", values, [2**-21], [0])
    net.result("FULLY_CONNECTED", [x, w, b], options("FullyConnected"), (1, 4), 0.53, 0)
    path = net.write(tmp_path / "bias.tflite", ["y"])
    network = IntegerNetwork(load_tflite(path, any_scale=True), scaled=True)
    (bias,) = (n.value for n in network.graph if n.type.dtype == np.int32)
    np.testing.assert_array_equal(bias, values)
    every = {"x": np.arange(-128, 128).astype(np.int8).reshape(-1, 4)}
    (found,) = network.run(every).values()
    np.testing.assert_array_equal(found, reference(path, every)["y"])


def test_without_the_extension_they_are_refused_as_before(tmp_path):
    net = Draws().drawn(1)
    convolution(net, padding=SAME)
    graph = load_tflite(net.write(tmp_path / "op.tflite", ["y"]), any_scale=True)
    with pytest.raises(UnsupportedError, match="but the DPU needs one power of two as scale"):
        IntegerNetwork(graph)


@pytest.mark.parametrize("name", ["ad01", "ic_resnet8", "kws_dscnn", "vww_96"])
def test_networks_of_mlperf_tiny_give_every_byte(name, models):
    path = models / "mlperf_tiny" / "int8" / f"{name}_int8.tflite"
    graph = load_tflite(path, any_scale=True)
    (given,) = (node for node in graph if node.kind == "data")
    random = np.random.default_rng(7)
    samples = {given.name: random.integers(-128, 128, (4, *given.shape[1:])).astype(np.int8)}
    network = IntegerNetwork(graph, scaled=True)
    (expected,) = reference(path, samples).values()
    (found,) = network.run(samples).values()
    np.testing.assert_array_equal(found, expected)
