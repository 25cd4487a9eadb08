# SPDX-License-Identifier: Apache-2.0
"""GroupNorm and InstanceNorm in parts: the same in float, and near it in integers."""

import numpy as np
import pytest

from opendpu.ir import FloatGraph, Graph
from opendpu.ops.session import Session
from opendpu.quantize import QuantizeConfig, quantize, quantize_with_report
from opendpu.quantize.samples import calibration_samples
from opendpu.quantize.transforms.tabulate import tabulate
from opendpu_arch.target import Target

TABLES = QuantizeConfig(
    target=Target.from_name("B512+table"), cross_layer=False, bias_correction=False,
    weight_correction=False, refinement=False,
)  # fmt: skip
WINDOW = {"kernel": [3, 3], "stride": [1, 1], "pad": [1, 1, 1, 1], "pad_mode": "FLOOR"}
CHANNELS = 24
SHAPE = (1, 40, 36, CHANNELS)


def conv(graph: Graph, name: str, source: str, factors: np.ndarray | float = 1.0) -> str:
    """Add a convolution whose output channels are multiplied by ``factors``."""
    rng = np.random.default_rng(len(name))
    channels = graph[source].shape[-1]
    weights = rng.standard_normal((CHANNELS, 3, 3, channels)) / np.sqrt(9 * channels)
    weights *= np.broadcast_to(factors, CHANNELS)[:, None, None, None]
    given = {"input": [source], "weights": [graph.add_const(f"{name}_w", weights).name]}
    return graph.add(name, "conv2d", (*graph[source].shape[:3], CHANNELS), given, WINDOW).name


def network(
    groups: int, factors: np.ndarray | float = 1.0, affine: bool = True, epsilon: float = 1e-5
) -> FloatGraph:
    """Return a normalization between two convolutions."""
    graph, rng = FloatGraph("norm"), np.random.default_rng(7)
    graph.add("x", "data", (*SHAPE[:3], 3))
    source = conv(graph, "first", "x", factors)
    attrs = {"eps": epsilon, "affine": affine}
    kind = "instancenorm" if groups == CHANNELS else "groupnorm"
    if kind == "groupnorm":
        attrs |= {"num_groups": groups, "num_channels": CHANNELS}
    node = graph.add("op", kind, SHAPE, {"input": [source]}, attrs)
    if affine:
        node.inputs["weight"] = [graph.add_const("weight", rng.uniform(0.5, 1.5, CHANNELS)).name]
        node.inputs["bias"] = [graph.add_const("bias", rng.normal(0, 0.5, CHANNELS)).name]
    graph.outputs = [conv(graph, "y", "op")]
    return graph


def images(count: int = 4, seed: int = 0, low: float = 0.5) -> np.ndarray:
    """Return images of different contrast and brightness."""
    rng = np.random.default_rng(seed)
    contrast = np.linspace(low, 1, count)[:, None, None, None]
    texture = rng.uniform(-2, 2, (count, *SHAPE[1:3], 3))
    brightness = rng.choice([-1, 1], (count, 1, 1, 3))
    return (contrast * (texture + brightness)).astype(np.float32)


def computed(graph: Graph, values: np.ndarray, **options: bool) -> np.ndarray:
    (found,) = Session(graph, keep=graph.outputs, batched=True).run({"x": values}).values()
    return found


def noise(wanted: np.ndarray, found: np.ndarray) -> float:
    return float(10 * np.log10(np.square(wanted).sum() / np.square(wanted - found).sum()))


@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize("groups", [1, 4, 12, CHANNELS])
def test_it_is_the_same_in_float(groups: int, affine: bool) -> None:
    graph, values = network(groups, affine=affine), images()
    wanted = computed(graph, values)
    names, _ = tabulate(graph, calibration_samples(graph, {"x": values}), TABLES)
    assert names == ["op"]
    assert not any(node.kind in ("groupnorm", "instancenorm") for node in graph)
    np.testing.assert_allclose(computed(graph, values), wanted, rtol=1e-3, atol=1e-4)


SPREAD = np.geomspace(0.02, 1, CHANNELS)
"""Of channels whose variances are up to 2500 times as large as others'."""


@pytest.mark.parametrize(
    ("groups", "factors", "low", "least"),
    [
        (1, 1.0, 0.5, 23), (6, 1.0, 0.5, 23), (CHANNELS, 1.0, 0.5, 23),
        (CHANNELS, SPREAD, 0.5, 23), (6, SPREAD, 0.5, 23), (CHANNELS, 1.0, 0.1, 19),
    ],
)  # fmt: skip
def test_it_loses_little(groups: int, factors: np.ndarray | float, low: float, least: int) -> None:
    graph = network(groups, factors)
    quantized = quantize(graph, {"x": images(8, low=low)}, TABLES)
    assert not any(node.kind in ("groupnorm", "instancenorm") for node in quantized)
    other = images(4, seed=1, low=low)
    assert noise(computed(graph, other), computed(quantized, other)) > least


def test_channels_that_are_always_the_same() -> None:
    """A channel without variance is its bias; its reciprocal root takes no bits of others."""
    factors = np.ones(CHANNELS)
    factors[[2, 5]] = 0
    graph = network(CHANNELS, factors)
    quantized = quantize(graph, {"x": images(8)}, TABLES)
    other = images(4, seed=1)
    assert noise(computed(graph, other), computed(quantized, other)) > 23


def test_images_that_differ_too_much_stay_in_float() -> None:
    graph = network(CHANNELS)
    values = images(4)
    values[0] *= 0.002
    found = quantize_with_report(graph, {"x": values}, TABLES)
    (node,) = (node for node in found.graph if node.kind == "instancenorm")
    assert "variances of its groups of channels differ" in node.reason


def test_a_plain_target_keeps_one_operator() -> None:
    quantized = quantize(network(6), {"x": images()}, QuantizeConfig(refinement=False))
    assert [node.kind for node in quantized].count("groupnorm") == 1
