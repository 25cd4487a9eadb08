# SPDX-License-Identifier: Apache-2.0
"""Quantized graphs in integers: groups of ops, ops on the CPU, AMD's form of concat."""

import math

import numpy as np
import pytest

from opendpu.ir import Graph, to_xir
from opendpu.reference import evaluate_float, evaluate_quantized
from opendpu_arch.errors import GraphError, TensorError, UnsupportedError

CONV = {"kernel": [1, 1], "stride": [1, 1], "pad": [0, 0, 0, 0], "pad_mode": "FLOOR"}


class Sketch(Graph):
    """A draft that is written down one op a line."""

    def put(self, name, kind, inputs, attrs=None, shape=None):
        names = inputs if isinstance(inputs, dict) else {"input": inputs}
        return self.add(name, kind, shape or self[names["input"][0]].shape, names, attrs).name

    def fix(self, name, point, **attrs):
        settings = {
            "fix_point": point,
            "bit_width": 8,
            "if_signed": True,
            "round_mode": "DPU_ROUND",
        } | attrs
        return self.put(f"{name}_fix", "fix", [name], settings)

    def source(self, shape, point, name="x"):
        self.add(name, "data", shape)
        return self.fix(name, point)

    def constant(self, name, integers, point):
        self.add_const(name, np.asarray(integers) * 2.0**-point)
        return self.fix(name, point)


def integers(rng, *shape):
    return rng.integers(-128, 128, shape).astype(np.int8)


def run(draft, *outputs, **inputs):
    draft.outputs = list(outputs)
    found = evaluate_quantized(to_xir(draft), inputs)
    assert list(found) == draft.outputs
    return found[outputs[0]] if len(outputs) == 1 else list(found.values())


def test_inputs_are_rounded_half_up_and_saturated():
    draft = Sketch("g")
    draft.source((1, 6), -1)
    x = np.array([[1.0, 3.0, -1.0, -3.0, 1000.0, -1000.0]], np.float32)
    assert run(draft, "x_fix", x=x).tolist() == [[1, 2, 0, -1, 127, -128]]


def test_integer_inputs_are_taken_as_they_are(rng):
    draft = Sketch("g")
    draft.source((1, 6), 5)
    x = integers(rng, 4, 6)
    np.testing.assert_array_equal(run(draft, "x_fix", x=x), x)


@pytest.mark.parametrize("activation", [None, "relu", "relu6", "leaky-relu"])
def test_layer_with_its_activation_rounds_once(rng, activation):
    draft = Sketch("g")
    w, b = integers(rng, 3, 1, 1, 4), integers(rng, 3)
    inputs = {
        "input": [draft.source((1, 2, 2, 4), 4)],
        "weights": [draft.constant("w", w, 7)],
        "bias": [draft.constant("b", b, 6)],
    }
    last = draft.put("c", "conv2d", inputs, CONV, (1, 2, 2, 3))
    if activation:
        attrs = {"alpha": 26 / 256} if activation == "leaky-relu" else {}
        last = draft.put("a", activation, [last], attrs)
    draft.fix(last, 4)
    x = integers(rng, 5, 2, 2, 4)
    found = run(draft, f"{last}_fix", x=x)
    assert found.dtype == np.int8
    real = (x.astype(float) / 16) @ (w[:, 0, 0].T / 128) + b / 64
    if activation:
        limit = 6 if activation == "relu6" else math.inf
        slope = 26 / 256 if activation == "leaky-relu" else 0
        real = np.minimum(np.where(real < 0, real * slope, real), limit)
    np.testing.assert_array_equal(found, np.clip(np.floor(real * 16 + 0.5), -128, 127))


def test_activation_that_no_engine_has_is_computed_in_float(rng):
    draft = Sketch("g")
    inputs = {
        "input": [draft.source((1, 2, 2, 4), 4)],
        "weights": [draft.constant("w", integers(rng, 3, 1, 1, 4), 7)],
    }
    draft.put("c", "conv2d", inputs, CONV, (1, 2, 2, 3))
    draft.put("a", "leaky-relu", ["c"], {"alpha": 0.3})
    draft.fix("a", 4)
    x = rng.integers(-8, 8, (1, 2, 2, 4)).astype(np.float32)
    found = run(draft, "a_fix", x=x)
    expected = evaluate_float(draft, {"x": x})["a_fix"]
    np.testing.assert_array_equal(found / 16, expected)


@pytest.mark.parametrize("own_fix", [False, True])
def test_concat_with_and_without_fixes_before(rng, own_fix):
    """AMD leaves out the ``fix`` of what goes into a concat: it has the position of the result."""
    draft = Sketch("g")
    inputs = {
        "input": [draft.source((1, 2, 2, 4), 4)],
        "weights": [draft.constant("w", integers(rng, 3, 1, 1, 4), 7)],
    }
    draft.put("c", "conv2d", inputs, CONV, (1, 2, 2, 3))
    part = draft.put("r", "relu", ["c"])
    if own_fix:
        part = draft.fix("r", 3)
    draft.put("k", "concat", [part, "x_fix"], {"axis": 3}, (1, 2, 2, 7))
    draft.fix("k", 3)
    x = integers(rng, 1, 2, 2, 4)
    found = run(draft, "k_fix", x=x)
    twin = Sketch("twin")
    twin.nodes = dict(draft.nodes)
    if not own_fix:
        twin.fix("r", 3)
    np.testing.assert_array_equal(found[..., :3], run(twin, "r_fix", x=x))
    np.testing.assert_array_equal(found[..., 3:], np.floor((x.astype(int) + 1) / 2))


def test_addition_with_relu(rng):
    draft = Sketch("g")
    draft.source((1, 8), 5, "x")
    draft.source((1, 8), 3, "y")
    draft.put("s", "add", ["x_fix", "y_fix"])
    draft.put("r", "relu", ["s"])
    draft.fix("r", 3)
    x, y = integers(rng, 9, 8), integers(rng, 9, 8)
    total = np.floor(x.astype(float)) + 4.0 * y
    expected = np.clip(np.floor(np.maximum(total, 0) / 4 + 0.5), -128, 127)
    np.testing.assert_array_equal(run(draft, "r_fix", x=x, y=y), expected)


def test_data_that_only_moves(rng):
    draft = Sketch("g")
    draft.source((1, 2, 3, 4), 5)
    draft.put(
        "p",
        "pad",
        ["x_fix"],
        {"paddings": [0, 0, 1, 0, 0, 2, 0, 0], "mode": "CONSTANT", "constant_values": [1.0] * 8},
        (1, 3, 5, 4),
    )
    draft.fix("p", 5)
    draft.put("t", "transpose", ["p_fix"], {"order": [0, 3, 1, 2]}, (1, 4, 3, 5))
    draft.fix("t", 5)
    draft.put("f", "reshape", ["t_fix"], {"shape": [1, 60]}, (1, 60))
    draft.fix("f", 4)
    draft.put("u", "resize", ["x_fix"], {"mode": "NEAREST", "scale": [2.0, 1.0]}, (1, 2, 6, 4))
    draft.fix("u", 5)
    x = integers(rng, 2, 2, 3, 4)
    flat, wide = run(draft, "f_fix", "u_fix", x=x)
    padded = np.pad(x, [(0, 0), (1, 0), (0, 2), (0, 0)], constant_values=32).astype(int)
    expected = np.floor((padded.transpose(0, 3, 1, 2).reshape(2, 60) + 1) / 2)
    np.testing.assert_array_equal(flat, expected)
    np.testing.assert_array_equal(wide, x.repeat(2, axis=2))


def test_results_of_the_cpu_are_floats(rng):
    draft = Sketch("g")
    draft.source((1, 5), 4)
    draft.put("s", "softmax", ["x_fix"], {"axis": 1})
    x = integers(rng, 3, 5)
    found = run(draft, "s", x=x)
    assert found.dtype == np.float32
    e = np.exp(x / 16 - (x / 16).max(axis=1, keepdims=True))
    np.testing.assert_allclose(found, e / e.sum(axis=1, keepdims=True), rtol=1e-5)


def test_float_evaluation_of_fix_ops_gives_the_same_as_integers(rng):
    """Where every product is exact in float32, both evaluations agree to the last bit."""
    draft = Sketch("g")
    inputs = {
        "input": [draft.source((1, 5, 5, 4), 4)],
        "weights": [draft.constant("w", integers(rng, 1, 3, 3, 4), 7)],
        "bias": [draft.constant("b", integers(rng, 4), 9)],
    }
    attrs = {"kernel": [3, 3], "stride": [2, 2], "pad": [1, 1, 1, 1], "pad_mode": "FLOOR"}
    draft.put("c", "depthwise-conv2d", inputs, attrs, (1, 3, 3, 4))
    draft.fix("c", 3)
    draft.put("m", "maxpool2d", ["c_fix"], {**CONV, "kernel": [2, 2]}, (1, 2, 2, 4))
    draft.fix("m", 3)
    x = integers(rng, 6, 5, 5, 4)
    found = run(draft, "m_fix", x=x)
    real = evaluate_float(draft, {"x": x / np.float32(16)})["m_fix"]
    np.testing.assert_array_equal(found / 8, real)


def test_kept_results_by_name(rng):
    draft = Sketch("g")
    draft.source((1, 5), 4)
    draft.put("r", "relu", ["x_fix"])
    draft.fix("r", 4)
    draft.outputs = ["r_fix"]
    x = integers(rng, 3, 5)
    found = evaluate_quantized(draft, {"x": x}, keep=["x_fix", "r"])
    np.testing.assert_array_equal(found["x_fix"], x)
    np.testing.assert_array_equal(found["r"], np.maximum(x, 0) / 16)


def test_large_batches_are_cut(rng):
    draft = Sketch("g")
    draft.source((1, 3), 4)
    draft.constant("k", [[1, 2, 3]], 4)
    draft.put("s", "add", ["x_fix", "k_fix"])
    draft.fix("s", 4)
    x = integers(rng, 150, 3)
    found, constant = run(draft, "s_fix", "k_fix", x=x)
    np.testing.assert_array_equal(found, np.clip(x.astype(int) + constant, -128, 127))
    assert constant.tolist() == [[1, 2, 3]]


@pytest.mark.parametrize(
    ("attrs", "text"),
    [
        ({"bit_width": 16}, "fix op 'x_fix' has 16 signed bits, but must have 8 signed bits"),
        ({"if_signed": False}, "fix op 'x_fix' has 8 unsigned bits"),
    ],
)
def test_other_widths(attrs, text):
    draft = Sketch("g")
    draft.add("x", "data", (1, 4))
    draft.fix("x", 3, **attrs)
    with pytest.raises(GraphError, match=text):
        run(draft, "x_fix", x=np.zeros((1, 4), np.float32))


@pytest.mark.parametrize("evaluate", [evaluate_float, evaluate_quantized])
def test_inputs_that_do_not_fit(evaluate):
    draft = Sketch("g")
    draft.source((1, 4), 3)
    draft.source((1, 4), 3, "y")
    draft.put("s", "add", ["x_fix", "y_fix"])
    draft.fix("s", 3)
    draft.outputs = ["s_fix"]
    good = np.zeros((2, 4), np.float32)
    for inputs, text in (
        ({"x": good}, "input 'y' of graph 'g' is missing"),
        ({"x": good, "y": good, "z": good}, "'z' is no input of graph 'g'; its inputs are: x, y"),
        ({"x": good, "y": np.zeros((2, 5))}, "input 'y' has shape [2, 5], but must be [N, 4]"),
        ({"x": good, "y": np.zeros((3, 4))}, "inputs have different batch sizes (x: 2, y: 3)"),
    ):
        with pytest.raises(TensorError) as caught:
            evaluate(draft, inputs)
        assert text in str(caught.value)


@pytest.mark.parametrize("evaluate", [evaluate_float, evaluate_quantized])
def test_unknown_ops_and_names(evaluate):
    draft = Sketch("g")
    draft.source((1, 4), 3)
    draft.put("s", "priorbox", ["x_fix"])
    draft.outputs = ["s"]
    x = {"x": np.zeros((1, 4), np.float32)}
    with pytest.raises(UnsupportedError, match=r"op 's' \(priorbox\) has no float evaluation"):
        evaluate(draft, x)
    with pytest.raises(GraphError, match="graph 'g' has no node 'nobody'"):
        evaluate(draft, x, keep=["nobody"])


@pytest.mark.parametrize(
    ("mode", "expected"),
    [("DPU_ROUND", [1, 0, 3, -2]), ("STD_ROUND", [1, -1, 3, -3]), ("PY3_ROUND", [0, 0, 2, -2])],
)
def test_round_modes_of_fix(mode, expected):
    draft = Sketch("g")
    draft.add("x", "data", (1, 4))
    draft.fix("x", 0, round_mode=mode)
    draft.outputs = ["x_fix"]
    x = np.array([[0.5, -0.5, 2.5, -2.5]], np.float32)
    assert evaluate_float(draft, {"x": x})["x_fix"].tolist() == [expected]
    assert evaluate_quantized(draft, {"x": x})["x_fix"].tolist() == [expected]


@pytest.mark.parametrize("evaluate", [evaluate_float, evaluate_quantized])
def test_unknown_round_mode(evaluate):
    draft = Sketch("g")
    draft.add("x", "data", (1, 4))
    draft.fix("x", 0, round_mode="CEIL")
    draft.outputs = ["x_fix"]
    with pytest.raises(UnsupportedError, match="fix op of 'x' has round_mode 'CEIL', but it"):
        evaluate(draft, {"x": np.zeros((1, 4), np.float32)})
