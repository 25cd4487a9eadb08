# SPDX-License-Identifier: Apache-2.0
"""Quantized graphs in integers: groups of ops, ops on the CPU, AMD's form of concat."""

import math

import numpy as np
import pytest
from oracle import evaluate_float, evaluate_quantized

import xir
from opendpu.ir import Quantization, QuantizedGraph, to_xir
from opendpu_arch.errors import GraphError, TensorError, UnsupportedError

CONV = {"kernel": [1, 1], "stride": [1, 1], "pad": [0, 0, 0, 0], "pad_mode": "FLOOR"}


class Sketch(QuantizedGraph):
    """A graph that is written down one op a line."""

    def put(self, name, kind, inputs, attrs=None, shape=None):
        names = inputs if isinstance(inputs, dict) else {"input": inputs}
        return self.add(name, kind, shape or self[names["input"][0]].shape, names, attrs).name

    def fix(self, name, point, **options):
        quantization = Quantization.power_of_two(point, **options)
        return self.add_fix(f"{name}_fix", name, quantization).name

    def source(self, shape, point, name="x"):
        self.add(name, "data", shape)
        return self.fix(name, point)

    def constant(self, name, integers, point):
        self.add_const(name, np.asarray(integers) * 2.0**-point)
        return self.fix(name, point)


def integers(rng, *shape):
    return rng.integers(-128, 128, shape).astype(np.int8)


def run(graph, *outputs, **inputs):
    graph.outputs = list(outputs)
    found = evaluate_quantized(to_xir(graph), inputs)
    assert list(found) == graph.outputs
    return found[outputs[0]] if len(outputs) == 1 else list(found.values())


def test_inputs_are_rounded_half_up_and_saturated():
    graph = Sketch("g")
    graph.source((1, 6), -1)
    x = np.array([[1.0, 3.0, -1.0, -3.0, 1000.0, -1000.0]], np.float32)
    assert run(graph, "x_fix", x=x).tolist() == [[1, 2, 0, -1, 127, -128]]


def test_integer_inputs_are_taken_as_they_are(rng):
    graph = Sketch("g")
    graph.source((1, 6), 5)
    x = integers(rng, 4, 6)
    np.testing.assert_array_equal(run(graph, "x_fix", x=x), x)


@pytest.mark.parametrize("activation", [None, "relu", "relu6", "leaky-relu"])
def test_layer_with_its_activation_rounds_once(rng, activation):
    graph = Sketch("g")
    w, b = integers(rng, 3, 1, 1, 4), integers(rng, 3)
    inputs = {
        "input": [graph.source((1, 2, 2, 4), 4)],
        "weights": [graph.constant("w", w, 7)],
        "bias": [graph.constant("b", b, 6)],
    }
    last = graph.put("c", "conv2d", inputs, CONV, (1, 2, 2, 3))
    if activation:
        attrs = {"alpha": 26 / 256} if activation == "leaky-relu" else {}
        last = graph.put("a", activation, [last], attrs)
    graph.fix(last, 4)
    x = integers(rng, 5, 2, 2, 4)
    found = run(graph, f"{last}_fix", x=x)
    assert found.dtype == np.int8
    real = (x.astype(float) / 16) @ (w[:, 0, 0].T / 128) + b / 64
    if activation:
        limit = 6 if activation == "relu6" else math.inf
        slope = 26 / 256 if activation == "leaky-relu" else 0
        real = np.minimum(np.where(real < 0, real * slope, real), limit)
    np.testing.assert_array_equal(found, np.clip(np.floor(real * 16 + 0.5), -128, 127))


def test_activation_that_no_engine_has_is_computed_in_float(rng):
    graph = Sketch("g")
    inputs = {
        "input": [graph.source((1, 2, 2, 4), 4)],
        "weights": [graph.constant("w", integers(rng, 3, 1, 1, 4), 7)],
    }
    graph.put("c", "conv2d", inputs, CONV, (1, 2, 2, 3))
    graph.put("a", "leaky-relu", ["c"], {"alpha": 0.3})
    graph.fix("a", 4)
    x = rng.integers(-8, 8, (1, 2, 2, 4)).astype(np.float32)
    found = run(graph, "a_fix", x=x)
    expected = evaluate_float(graph, {"x": x})["a_fix"]
    np.testing.assert_array_equal(found / 16, expected)


@pytest.mark.parametrize("own_fix", [False, True])
def test_concat_with_and_without_fixes_before(rng, own_fix):
    """AMD leaves out the ``fix`` of what goes into a concat: it has the position of the result."""
    graph = Sketch("g")
    inputs = {
        "input": [graph.source((1, 2, 2, 4), 4)],
        "weights": [graph.constant("w", integers(rng, 3, 1, 1, 4), 7)],
    }
    graph.put("c", "conv2d", inputs, CONV, (1, 2, 2, 3))
    part = graph.put("r", "relu", ["c"])
    if own_fix:
        part = graph.fix("r", 3)
    graph.put("k", "concat", [part, "x_fix"], {"axis": 3}, (1, 2, 2, 7))
    graph.fix("k", 3)
    x = integers(rng, 1, 2, 2, 4)
    found = run(graph, "k_fix", x=x)
    twin = Sketch("twin")
    twin.nodes = dict(graph.nodes)
    if not own_fix:
        twin.fix("r", 3)
    np.testing.assert_array_equal(found[..., :3], run(twin, "r_fix", x=x))
    np.testing.assert_array_equal(found[..., 3:], np.floor((x.astype(int) + 1) / 2))


def test_addition_with_relu(rng):
    graph = Sketch("g")
    graph.source((1, 8), 5, "x")
    graph.source((1, 8), 3, "y")
    graph.put("s", "add", ["x_fix", "y_fix"])
    graph.put("r", "relu", ["s"])
    graph.fix("r", 3)
    x, y = integers(rng, 9, 8), integers(rng, 9, 8)
    total = np.floor(x.astype(float)) + 4.0 * y
    expected = np.clip(np.floor(np.maximum(total, 0) / 4 + 0.5), -128, 127)
    np.testing.assert_array_equal(run(graph, "r_fix", x=x, y=y), expected)


def test_data_that_only_moves(rng):
    graph = Sketch("g")
    graph.source((1, 2, 3, 4), 5)
    graph.put(
        "p",
        "pad",
        ["x_fix"],
        {"paddings": [0, 0, 1, 0, 0, 2, 0, 0], "mode": "CONSTANT", "constant_values": [1.0] * 8},
        (1, 3, 5, 4),
    )
    graph.fix("p", 5)
    graph.put("t", "transpose", ["p_fix"], {"order": [0, 3, 1, 2]}, (1, 4, 3, 5))
    graph.fix("t", 5)
    graph.put("f", "reshape", ["t_fix"], {"shape": [1, 60]}, (1, 60))
    graph.fix("f", 4)
    graph.put("u", "resize", ["x_fix"], {"mode": "NEAREST", "scale": [2.0, 1.0]}, (1, 2, 6, 4))
    graph.fix("u", 5)
    x = integers(rng, 2, 2, 3, 4)
    flat, wide = run(graph, "f_fix", "u_fix", x=x)
    padded = np.pad(x, [(0, 0), (1, 0), (0, 2), (0, 0)], constant_values=32).astype(int)
    expected = np.floor((padded.transpose(0, 3, 1, 2).reshape(2, 60) + 1) / 2)
    np.testing.assert_array_equal(flat, expected)
    np.testing.assert_array_equal(wide, x.repeat(2, axis=2))


def test_results_of_the_cpu_are_floats(rng):
    graph = Sketch("g")
    graph.source((1, 5), 4)
    graph.put("s", "softmax", ["x_fix"], {"axis": 1})
    x = integers(rng, 3, 5)
    found = run(graph, "s", x=x)
    assert found.dtype == np.float32
    e = np.exp(x / 16 - (x / 16).max(axis=1, keepdims=True))
    np.testing.assert_allclose(found, e / e.sum(axis=1, keepdims=True), rtol=1e-5)


def test_float_evaluation_of_fix_ops_gives_the_same_as_integers(rng):
    """Where every product is exact in float32, both evaluations agree to the last bit."""
    graph = Sketch("g")
    inputs = {
        "input": [graph.source((1, 5, 5, 4), 4)],
        "weights": [graph.constant("w", integers(rng, 1, 3, 3, 4), 7)],
        "bias": [graph.constant("b", integers(rng, 4), 9)],
    }
    attrs = {"kernel": [3, 3], "stride": [2, 2], "pad": [1, 1, 1, 1], "pad_mode": "FLOOR"}
    graph.put("c", "depthwise-conv2d", inputs, attrs, (1, 3, 3, 4))
    graph.fix("c", 3)
    graph.put("m", "maxpool2d", ["c_fix"], {**CONV, "kernel": [2, 2]}, (1, 2, 2, 4))
    graph.fix("m", 3)
    x = integers(rng, 6, 5, 5, 4)
    found = run(graph, "m_fix", x=x)
    real = evaluate_float(graph, {"x": x / np.float32(16)})["m_fix"]
    np.testing.assert_array_equal(found / 8, real)


def test_kept_results_by_name(rng):
    graph = Sketch("g")
    graph.source((1, 5), 4)
    graph.put("r", "relu", ["x_fix"])
    graph.fix("r", 4)
    graph.outputs = ["r_fix"]
    x = integers(rng, 3, 5)
    found = evaluate_quantized(graph, {"x": x}, keep=["x_fix", "r"])
    np.testing.assert_array_equal(found["x_fix"], x)
    np.testing.assert_array_equal(found["r"], np.maximum(x, 0) / 16)


def test_large_batches_are_cut(rng):
    graph = Sketch("g")
    graph.source((1, 3), 4)
    graph.constant("k", [[1, 2, 3]], 4)
    graph.put("s", "add", ["x_fix", "k_fix"])
    graph.fix("s", 4)
    x = integers(rng, 150, 3)
    found, constant = run(graph, "s_fix", "k_fix", x=x)
    np.testing.assert_array_equal(found, np.clip(x.astype(int) + constant, -128, 127))
    assert constant.tolist() == [[1, 2, 3]]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"bits": 16}, "fix op 'x_fix' has 16 signed bits, but must have 8 signed bits"),
        ({"signed": False}, "fix op 'x_fix' has 8 unsigned bits"),
    ],
)
def test_other_widths(options, text):
    graph = Sketch("g")
    graph.add("x", "data", (1, 4))
    graph.fix("x", 3, **options)
    with pytest.raises(GraphError, match=text):
        run(graph, "x_fix", x=np.zeros((1, 4), np.float32))


@pytest.mark.parametrize("evaluate", [evaluate_float, evaluate_quantized])
def test_inputs_that_do_not_fit(evaluate):
    graph = Sketch("g")
    graph.source((1, 4), 3)
    graph.source((1, 4), 3, "y")
    graph.put("s", "add", ["x_fix", "y_fix"])
    graph.fix("s", 3)
    graph.outputs = ["s_fix"]
    good = np.zeros((2, 4), np.float32)
    for inputs, text in (
        ({"x": good}, "input 'y' of graph 'g' is missing"),
        ({"x": good, "y": good, "z": good}, "'z' is no input of graph 'g'; its inputs are: x, y"),
        ({"x": good, "y": np.zeros((2, 5))}, "input 'y' has shape [2, 5], but must be [N, 4]"),
        ({"x": good, "y": np.zeros((3, 4))}, "inputs have different batch sizes (x: 2, y: 3)"),
    ):
        with pytest.raises(TensorError) as caught:
            evaluate(graph, inputs)
        assert text in str(caught.value)


@pytest.mark.parametrize("evaluate", [evaluate_float, evaluate_quantized])
def test_unknown_ops_and_names(evaluate):
    graph = Sketch("g")
    graph.source((1, 4), 3)
    graph.put("s", "priorbox", ["x_fix"])
    graph.outputs = ["s"]
    x = {"x": np.zeros((1, 4), np.float32)}
    with pytest.raises(UnsupportedError, match=r"op 's' \(priorbox\) has no float evaluation"):
        evaluate(graph, x)
    with pytest.raises(GraphError, match="graph 'g' has no node 'nobody'"):
        evaluate(graph, x, keep=["nobody"])


@pytest.mark.parametrize(
    ("mode", "expected"),
    [("DPU_ROUND", [1, 0, 3, -2]), ("STD_ROUND", [1, -1, 3, -3]), ("PY3_ROUND", [0, 0, 2, -2])],
)
def test_round_modes_of_fix(mode, expected):
    graph = Sketch("g")
    graph.add("x", "data", (1, 4))
    graph.fix("x", 0, rounding=mode)
    graph.outputs = ["x_fix"]
    x = np.array([[0.5, -0.5, 2.5, -2.5]], np.float32)
    assert evaluate_float(graph, {"x": x})["x_fix"].tolist() == [expected]
    assert evaluate_quantized(graph, {"x": x})["x_fix"].tolist() == [expected]


def test_unknown_round_mode():
    graph = xir.Graph("g")
    head = graph.create_op("x", "data", {"shape": [1, 4], "data_type": "FLOAT32"})
    attrs = {"fix_point": 0, "bit_width": 8, "if_signed": True, "round_mode": "CEIL"}
    graph.create_op("x_fix", "fix", attrs, {"input": [head]})
    text = r"op 'x_fix' \(fix\): round_mode is 'CEIL', but must be one of DPU_ROUND, STD_ROUND, PY3"
    for evaluate in (evaluate_float, evaluate_quantized):
        with pytest.raises(GraphError, match=text):
            evaluate(graph, {"x": np.zeros((1, 4), np.float32)})
