# SPDX-License-Identifier: Apache-2.0
"""Rows and columns of feature maps exchanged: where that pays, what keeps its shape, results."""

import numpy as np
import pytest
from graph_draws import Quantized, compile_and_check
from network_draws import check, draw_network

from opendpu.compiler.kinds import cycles_alone
from opendpu.compiler.legalize import legalize
from opendpu.compiler.lower import lower
from opendpu.compiler.network import Network
from opendpu.compiler.network import transpose as module
from opendpu.compiler.network.transpose import transpose
from opendpu.ir import QuantizedGraph
from opendpu_arch.target import Target

TARGET = Target.from_name("B4096")


def line(height: int, width: int, channels: int = 48) -> QuantizedGraph:
    """A line of text: strides along the height, a gate of one pixel, then a row of columns."""
    q = Quantized()
    x = q.conv(q.data(height, width, 16), "first", channels, kernel=3, pad=1)
    y = q.conv(x, "deep", channels, kernel=5, pad=2, kind="depthwise-conv2d")
    y = q.conv(y, "point", channels, kernel=1)
    y = q.add([x, y], "sum")
    q.op("mean", "reduction_max", (1, 1, channels), [y], axis=[1, 2], keep_dims=True)
    gate = q.conv(q.fix("mean", 4), "gate", channels, kernel=1)
    q.op("product", "mul", (height, width, channels), [y, gate])
    y = q.conv(q.fix("product", 3), "wide", 2 * channels, kernel=3, stride=2, pad=1)
    y = q.pool(y, "pool", "maxpool2d", 3, stride=2, pad=1)
    return q.done(q.conv(y, "last", 24, kernel=3, pad=1))


def sound(width: int, channels: int = 64) -> QuantizedGraph:
    """A single row."""
    q = Quantized()
    x = q.conv(q.data(1, width, 16), "one", channels, kernel=3, pad=1)
    x = q.conv(x, "two", channels, kernel=3, pad=1)
    return q.done(q.conv(x, "three", channels, kernel=5, pad=2, stride=2))


def parts(height: int, width: int) -> QuantizedGraph:
    """A concatenation and channels of it between layers with windows."""
    q = Quantized()
    x = q.data(height, width, 32)
    one, two = (q.conv(x, name, 32, kernel=3, pad=1) for name in ("one", "two"))
    q.op("both", "concat", (height, width, 64), [one, two], axis=3)
    y = q.conv(q.fix("both", 4), "three", 64, kernel=3, pad=1)
    q.op(
        "half", "strided_slice", (height, width, 32), [y],
        begin=[0, 0, 0, 32], end=[1, height, width, 64], strides=[1, 1, 1, 1],
    )  # fmt: skip
    half = q.fix("half", 4)
    return q.done(q.conv(half, "four", 32, kernel=3, pad=1), y)


def with_constant(width: int) -> QuantizedGraph:
    """A single row, and a constant for each of its elements."""
    q = Quantized()
    x = q.conv(q.data(1, width, 16), "one", 48, kernel=3, pad=1)
    q.op("sum", "add", (1, width, 48), [x, q.const("places", 1, 1, width, 48, point=4)])
    return q.done(q.conv(q.fix("sum", 3), "two", 48, kernel=5, pad=2))


def network(graph: QuantizedGraph) -> Network:
    fixed = legalize(graph)
    names = [n.name for n in fixed if "input" in n.inputs]
    return lower(fixed, names, set(fixed.outputs), TARGET, cycles_alone)


def shapes(made: Network) -> dict[str, tuple[int, int]]:
    """Return rows and columns of every result of a layer."""
    every = made.features
    return {
        layer.output: (every[layer.output].height, every[layer.output].width)
        for layer in made.layers
    }


def test_a_line_of_text_becomes_a_column() -> None:
    made = transpose(network(line(4, 80)), TARGET)
    found = shapes(made)
    assert found["deep/transposed"] == found["sum/transposed"] == (80, 4)
    assert found["wide/transposed"] == (40, 2)
    assert found["gate"] == (1, 1)
    assert "deep" not in made.features
    (first,) = (layer for layer in made.layers if layer.name == "wide")
    assert first.sliding_window(first.operands[0]).stride_h == 2


def test_outputs_are_the_same_bytes_at_exchanged_distances() -> None:
    made = transpose(network(sound(200)), TARGET)
    assert shapes(made) == {
        "one/transposed": (200, 1), "two/transposed": (200, 1), "three/transposed": (100, 1),
    }  # fmt: skip
    alias = made.aliases["three/transposed"]
    assert (alias.holder, alias.pixel_bytes, alias.row_bytes) == ("three", 100 * 64, 64)
    assert (made.features["three"].height, made.features["three"].width) == (1, 100)


@pytest.mark.parametrize("size", [(40, 40), (64, 80), (20, 20)])
def test_where_nothing_is_gained(size: tuple[int, int]) -> None:
    before = network(line(*size))
    assert transpose(before, TARGET) is before


def test_a_layer_that_is_not_worth_the_way_over_ddr() -> None:
    """Between layers that fill the rows, a low one whose maps stay on chip."""
    q = Quantized()
    x = q.conv(q.data(32, 32, 16), "first", 16, kernel=3, pad=1)
    x = q.pool(x, "low", "maxpool2d", 3, stride=8)
    graph = q.done(q.conv(x, "last", 16, kernel=1))
    before = network(graph)
    assert transpose(before, TARGET) is before


@pytest.mark.parametrize("target", ["B256", "B512", "B4096"])
@pytest.mark.parametrize(
    "graph",
    [line(4, 80), line(3, 50, 24), line(1, 60), sound(77), sound(200, 20), parts(2, 48),
     parts(5, 33), with_constant(90)],
)  # fmt: skip
def test_results(graph: QuantizedGraph, target: str) -> None:
    compile_and_check(graph, target, runs=1)


@pytest.mark.parametrize("part", range(3))
@pytest.mark.parametrize("target", ["B512", "B1152", "B4096"])
def test_the_same_bytes_wherever_it_is_possible(
    target: str, part: int, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everything that can be exchanged is, whatever it costs; every layer still has room."""
    monkeypatch.setattr(module, "LEAST_SHARE", -1)
    for _ in range(4):
        seed = int(rng.integers(1 << 30))
        check(draw_network(seed, most_layers=8), Target.from_name(target), seed, check=True)
