# SPDX-License-Identifier: Apache-2.0
"""Ops in parts that the DPU has; slopes that it has."""

import dataclasses

import numpy as np
import pytest
from oracle.floating import evaluate

from opendpu.ir import FloatGraph, to_xir
from opendpu.quantize.placement.groups import find_groups
from opendpu.quantize.transforms.approximate import approximate, nearest_slope
from opendpu.quantize.transforms.rewrite import rewrite
from opendpu_arch.target import Target

SHAPE = (1, 3, 4, 5)


def drawn(inputs: int) -> tuple[FloatGraph, dict[str, np.ndarray]]:
    graph = FloatGraph("test")
    random = np.random.default_rng(1)
    samples = {}
    for n in range(inputs):
        graph.add(f"x{n}", "data", SHAPE)
        samples[f"x{n}"] = random.standard_normal(SHAPE).astype(np.float32) * 3
    graph.outputs = ["y"]
    return graph, samples


def check(graph: FloatGraph, samples: dict[str, np.ndarray], kinds: list[str]) -> None:
    before = evaluate(graph, samples)["y"]
    rewrite(graph)
    np.testing.assert_allclose(evaluate(graph, samples)["y"], before, rtol=1e-5, atol=1e-6)
    assert [n.kind for n in graph if n.kind != "data"] == kinds
    to_xir(graph)


def test_hard_swish() -> None:
    graph, samples = drawn(1)
    graph.add("y", "hard-swish", SHAPE, {"input": ["x0"]})
    check(graph, samples, ["hard-sigmoid", "mul"])
    groups = find_groups(graph, set())
    assert groups.lower_bounds == {"x0": 0, "y_gate": 7}
    assert groups.names == ["x0", "y_gate", "y"]


@pytest.mark.parametrize(("terms", "sums"), [(2, 1), (4, 1), (5, 2), (7, 2), (8, 3), (11, 4)])
def test_sums(terms: int, sums: int) -> None:
    graph, samples = drawn(terms)
    graph.add("y", "add", SHAPE, {"input": list(samples)})
    check(graph, samples, ["add"] * sums)
    assert all(len(n.inputs["input"]) <= 4 for n in graph if n.kind == "add")


@pytest.mark.parametrize(
    ("height", "width", "windows"),
    [
        (160, 160, [(4, 8), (40, 20)]),
        (36, 40, [(1, 2), (36, 20)]),
        (45, 35, [(3, 1), (15, 35)]),
        (8, 200, [(1, 8), (8, 25)]),
        (32, 32, [(32, 32)]),
        (37, 82, [(1, 41), (37, 2)]),
        (31, 33, [(31, 33)]),
        (112, 112, [(1, 16), (28, 28)]),
        (56, 56, [(1, 4), (56, 14)]),
    ],
)
def test_averages(height: int, width: int, windows: list[tuple[int, int]]) -> None:
    """In two steps where a map is large, unless its sizes have no such divisors."""
    graph = FloatGraph("test")
    graph.add("x0", "data", (1, height, width, 5))
    size = [width, height]
    attrs = {"kernel": size, "stride": size, "pad": [0] * 4, "pad_mode": "FLOOR", "global": True}
    graph.add("y", "avgpool2d", (1, 1, 1, 5), {"input": ["x0"]}, attrs)
    graph.outputs = ["y"]
    x = np.random.default_rng(2).standard_normal((1, height, width, 5)).astype(np.float32)
    wanted = x.mean(axis=(1, 2), keepdims=True)
    rows, columns = windows[0]
    left = (height // rows, width // columns)
    shaped = len(windows) > 1 and left != windows[-1]
    kinds = ["avgpool2d", *["reshape"] * shaped, "avgpool2d"] if len(windows) > 1 else ["avgpool2d"]
    check(graph, {"x0": x}, kinds)
    np.testing.assert_allclose(evaluate(graph, {"x0": x})["y"], wanted, atol=1e-5)
    pools = [n for n in graph if n.kind == "avgpool2d"]
    assert [tuple(n.attrs["kernel"][::-1]) for n in pools] == windows
    assert pools[-1].name == "y"


@pytest.mark.parametrize(
    ("kind", "pixels", "sides"),
    [
        ("avgpool2d", 256, (1, 256)), ("avgpool2d", 784, (28, 28)), ("avgpool2d", 300, (15, 20)),
        ("maxpool2d", 256, (1, 256)), ("maxpool2d", 784, (28, 28)), ("maxpool2d", 300, (15, 20)),
        ("maxpool2d", 257, (1, 257)),
    ],
)  # fmt: skip
def test_pools_over_sequences(kind: str, pixels: int, sides: tuple[int, int]) -> None:
    """No window of the DPU is longer than 256 pixels: tokens of a transformer become a map."""
    graph = FloatGraph("test")
    graph.add("x0", "data", (1, 1, pixels, 5))
    size = [pixels, 1]
    attrs = {"kernel": size, "stride": size, "pad": [0] * 4, "pad_mode": "FLOOR", "global": True}
    graph.add("y", kind, (1, 1, 1, 5), {"input": ["x0"]}, attrs)
    graph.outputs = ["y"]
    x = np.random.default_rng(2).standard_normal((1, 1, pixels, 5)).astype(np.float32)
    wanted = x.mean(axis=(1, 2)) if kind == "avgpool2d" else x.max(axis=(1, 2))
    check(graph, {"x0": x}, ["reshape", kind] if sides[0] > 1 else [kind])
    np.testing.assert_allclose(evaluate(graph, {"x0": x})["y"][:, 0, 0], wanted, atol=1e-6)
    assert tuple(graph["y"].attrs["kernel"][::-1]) == sides


@pytest.mark.parametrize(
    ("height", "width"), [(1, 257), (1, 514), (1, 1279), (1279, 1), (1, 16001), (17, 263)]
)
def test_averages_of_as_many_pixels_as_no_window_has(height: int, width: int) -> None:
    """Some zeros are averaged too, and a factor takes them off."""
    graph = FloatGraph("test")
    graph.add("x0", "data", (1, height, width, 5))
    size = [width, height]
    attrs = {"kernel": size, "stride": size, "pad": [0] * 4, "pad_mode": "FLOOR", "global": True}
    graph.add("y", "avgpool2d", (1, 1, 1, 5), {"input": ["x0"]}, attrs)
    graph.outputs = ["y"]
    x = np.random.default_rng(2).standard_normal((1, height, width, 5)).astype(np.float32)
    wanted = x.mean(axis=(1, 2), keepdims=True)
    rewrite(graph)
    to_xir(graph)
    assert graph["y"].kind == "scale"
    assert all(max(node.attrs["kernel"]) <= 256 for node in graph if node.kind == "avgpool2d")
    factor = graph[graph["y"].inputs["scale"][0]].value
    np.testing.assert_allclose(factor * 64, np.round(factor * 64), atol=0.02)
    np.testing.assert_allclose(evaluate(graph, {"x0": x})["y"], wanted, atol=1e-5)


def test_the_slope_behind_a_depthwise_convolution_is_that_of_an_op() -> None:
    """Most targets have no LeakyReLU in that engine's write-back."""
    graph, _ = drawn(1)
    weights = graph.add_const("w", np.ones((1, 1, 1, 5))).name
    attrs = {"kernel": [1, 1], "stride": [1, 1], "pad": [0] * 4, "pad_mode": "FLOOR"}
    graph.add("d", "depthwise-conv2d", SHAPE, {"input": ["x0"], "weights": [weights]}, attrs)
    graph.add("y", "leaky-relu", SHAPE, {"input": ["d"]}, {"alpha": 0.1})
    one, other = graph.copy(), graph.copy()
    approximate(one, Target.from_name("B4096"))
    assert {"d", "y"} <= set(find_groups(one, set()).names)
    approximate(other, dataclasses.replace(Target.from_name("B4096"), alu_leaky_relu=True))
    assert "d" not in find_groups(other, set()).names


@pytest.mark.parametrize("alpha", [0.01, 0.2, 0.3, 1 / 3, 0.5, 1.5, -0.25, 0.0, 5.5, 126.9])
def test_slopes(alpha: float) -> None:
    near = nearest_slope(alpha)
    assert abs(near - alpha) <= abs(alpha) / 128
    assert any(float(near * 2**n).is_integer() and -128 <= near * 2**n < 128 for n in range(32))
    graph, _ = drawn(1)
    graph.add("y", "leaky-relu", SHAPE, {"input": ["x0"]}, {"alpha": alpha})
    approximate(graph)
    assert graph["y"].attrs["alpha"] == near


def test_slopes_of_prelu_have_a_scale() -> None:
    graph, _ = drawn(1)
    slope = graph.add_const("slope", np.ones(5)).name
    graph.add("y", "prelu", SHAPE, {"input": ["x0"], "weight": [slope]})
    graph.sort()
    assert set(find_groups(graph, set()).names) == {"x0", "y", "slope"}
