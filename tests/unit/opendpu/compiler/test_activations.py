# SPDX-License-Identifier: Apache-2.0
"""Activations: fused into layers, alone on the misc engine, or on the CPU with a reason."""

import numpy as np
import pytest
from graph_draws import Quantized, compile_and_check

TARGETS = ("B64", "B512", "B4096")


def alone(q: Quantized, kind: str, to: int = 4, point: int = 5, **attrs) -> str:
    x = q.conv(q.data(7, 6, 5), "conv", 11, pad=1, point=point)
    q.op("act", kind, (7, 6, 11), [x], **attrs)
    return q.fix("act", to)


@pytest.mark.parametrize("point", [3, 5, 7])
@pytest.mark.parametrize("alpha", [26 / 256, 0.25, 1.5, -0.5, 0.0])
def test_leaky_relu_alone(alpha: float, point: int) -> None:
    q = Quantized()
    y = alone(q, "leaky-relu", to=point, alpha=alpha)
    assert not compile_and_check(q.done(y)).report.on_cpu


@pytest.mark.parametrize("kind", ["conv2d", "depthwise-conv2d"])
def test_leaky_relu_of_a_layer(kind: str) -> None:
    q = Quantized()
    q.conv(q.data(6, 6, 5), "conv", 4, kind=kind)
    channels = q.graph["conv"].shape[-1]
    shape = (1, 4, 4, channels)
    q.graph.add("leaky", "leaky-relu", shape, {"input": ["conv"]}, {"alpha": 26 / 256})
    del q.graph.nodes["conv_fix"]
    target = "0x101000076010200" if kind != "conv2d" else "B512"
    assert not compile_and_check(q.done(q.fix("leaky", 4)), target).report.on_cpu
    if kind != "conv2d":
        reasons = compile_and_check(q.done("leaky_fix")).report.on_cpu
        assert '"nonlinear"(LEAKYRELU) of depthwise-conv2d-fix' in reasons["conv"]


def test_other_slopes_are_for_the_cpu() -> None:
    q = Quantized()
    reasons = compile_and_check(q.done(alone(q, "leaky-relu", alpha=0.3))).report.on_cpu
    assert reasons == {
        "act": 'DPU only supports "alpha"(0.3) of leaky-relu that is int8 / 2**n; 77/256 would '
        "lift it (XCOM_UNSUPPORT_NONLINEAR_TYPE)"
    }


def test_another_slope_without_a_rounding_before_it() -> None:
    """Both ops are on the CPU, for the same reason."""
    q = Quantized()
    q.conv(q.data(6, 6, 5), "conv", 4)
    q.graph.add("leaky", "leaky-relu", (1, 4, 4, 4), {"input": ["conv"]}, {"alpha": 0.3})
    del q.graph.nodes["conv_fix"]
    reasons = compile_and_check(q.done(q.fix("leaky", 4))).report.on_cpu
    assert set(reasons) == {"conv", "leaky"}
    for reason in reasons.values():
        assert 'DPU only supports "alpha"(0.3) 0.101562 (26/256) in the leaky-relu' in reason


@pytest.mark.parametrize("slopes", [1, 11])
@pytest.mark.parametrize("point", [3, 6])
def test_prelu(point: int, slopes: int) -> None:
    q = Quantized()
    x = q.conv(q.data(7, 6, 5), "conv", 11, pad=1, point=5)
    given = {"input": [x], "weight": [q.const("slope", slopes, point=7)]}
    q.graph.add("act", "prelu", (1, 7, 6, 11), given)
    assert not compile_and_check(q.done(q.fix("act", point))).report.on_cpu


def test_prelu_with_one_slope_an_element() -> None:
    q = Quantized()
    x = q.data(4, 4, 6)
    given = {"input": [x], "weight": [q.const("slope", 4, 4, 6)]}
    q.graph.add("act", "prelu", (1, 4, 4, 6), given)
    reasons = compile_and_check(q.done(q.fix("act", 5))).report.on_cpu
    assert '"weight" is of shape [4, 4, 6]' in reasons["act"]


@pytest.mark.parametrize("point", [0, 4, 5])
@pytest.mark.parametrize("target", TARGETS)
def test_hard_sigmoid(target: str, point: int) -> None:
    q = Quantized()
    y = alone(q, "hard-sigmoid", to=7, point=point)
    assert not compile_and_check(q.done(y), target).report.on_cpu


def test_hard_swish_in_two_steps() -> None:
    q = Quantized()
    x = q.conv(q.data(7, 6, 5), "conv", 11, pad=1, point=4)
    q.op("gate", "hard-sigmoid", (7, 6, 11), [x])
    q.op("act", "mul", (7, 6, 11), [x, q.fix("gate", 7)])
    assert not compile_and_check(q.done(q.fix("act", 4))).report.on_cpu


def test_hard_swish_in_one_step() -> None:
    q = Quantized()
    reasons = compile_and_check(q.done(alone(q, "hard-swish"))).report.on_cpu
    assert "as hard-sigmoid and mul with a fix op between" in reasons["act"]


@pytest.mark.parametrize("point", [4, 5])
@pytest.mark.parametrize("given", [3, 7])
def test_relu6_alone(given: int, point: int) -> None:
    q = Quantized()
    y = alone(q, "relu6", to=point, point=given)
    assert not compile_and_check(q.done(y)).report.on_cpu


def test_relu6_at_a_position_that_the_engine_clamps_elsewhere() -> None:
    q = Quantized()
    reasons = compile_and_check(q.done(alone(q, "relu6", to=3))).report.on_cpu
    assert 'relu6 with a result of "fix_point"(3) at least 4' in reasons["act"]


def test_random_activations(rng: np.random.Generator) -> None:
    """Shapes, strides of the readers and positions at random; a stride 2 reader moves the rows."""
    for _ in range(12):
        seed = int(rng.integers(1 << 30))
        q = Quantized(seed)
        pick = np.random.default_rng(seed)
        kind = str(pick.choice(["leaky-relu", "prelu", "hard-sigmoid", "relu6"]))
        height, width, channels = (int(n) for n in pick.integers(1, 24, 3))
        x = q.data(height, width, channels, point=int(pick.integers(1, 8)))
        given, attrs = {"input": [x]}, {}
        if kind == "leaky-relu":
            attrs["alpha"] = int(pick.integers(-128, 128)) / 2 ** int(pick.integers(0, 12))
        elif kind == "prelu":
            given["weight"] = [q.const("slope", channels, point=int(pick.integers(0, 9)))]
        q.graph.add("act", kind, (1, height, width, channels), given, attrs)
        y = q.fix("act", 7 if kind == "hard-sigmoid" else int(pick.integers(4, 8)))
        stride = int(pick.integers(1, 3))
        y = q.conv(y, "after", 4, kernel=3, stride=stride, pad=1)
        target = str(pick.choice(TARGETS))
        try:
            compiled = compile_and_check(q.done(y), target)
        except AssertionError as error:
            error.add_note(f"seed {seed}, {kind}, target {target}")
            raise
        assert not compiled.report.on_cpu, seed
