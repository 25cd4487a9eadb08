# SPDX-License-Identifier: Apache-2.0
"""Low maps with as many rows as the array has: where that pays, what keeps its shape, results."""

import pytest
from graph_draws import Quantized, compile_and_check

from opendpu.compiler.kinds import cycles_alone
from opendpu.compiler.legalize import legalize
from opendpu.compiler.lower import lower
from opendpu.compiler.network import Network
from opendpu.compiler.network.rows import fill_rows
from opendpu.ir import QuantizedGraph
from opendpu_arch.target import Target

TARGET = Target.from_name("B4096")


def tokens(height: int, width: int, channels: int = 64, *, window: bool = False) -> QuantizedGraph:
    """1x1 convolutions with a gate, a sum, and perhaps a 3x3 one in front and behind."""
    q = Quantized()
    x = q.data(height, width, channels)
    if window:
        x = q.conv(x, "front", channels, kernel=3, pad=1)
    y = q.conv(x, "one", channels, kernel=1)
    q.op("gate", "hard-sigmoid", (height, width, channels), [y])
    gate = q.fix("gate", 7)
    q.op("product", "mul", (height, width, channels), [y, gate])
    z = q.conv(q.fix("product", 4), "two", 2 * channels, kernel=1)
    z = q.conv(z, "three", channels, kernel=1)
    z = q.add([z, x], "sum")
    if window:
        z = q.conv(z, "behind", 8, kernel=3, pad=1)
    return q.done(z)


def network(graph: QuantizedGraph) -> Network:
    fixed = legalize(graph)
    names = [n.name for n in fixed if "input" in n.inputs]
    made = lower(fixed, names, set(fixed.outputs), TARGET, cycles_alone)
    return fill_rows(made, TARGET)


def shapes(made: Network) -> dict[str, tuple[int, int]]:
    """Return rows and columns of every result of a layer."""
    every = made.features
    return {
        layer.output: (every[layer.output].height, every[layer.output].width)
        for layer in made.layers
    }


def test_a_sequence_fills_the_rows() -> None:
    made = network(tokens(1, 40))
    found = shapes(made)
    assert set(found.values()) == {(8, 5)}
    assert found.keys() >= {"one", "gate", "product", "two", "sum/rows"}
    alias = made.aliases["sum/rows"]
    assert (alias.holder, alias.offset, alias.row_bytes) == ("sum", 0, 5 * 64)
    assert (made.features["sum"].height, made.features["sum"].width) == (1, 40)


def test_a_prime_number_of_pixels_is_a_column() -> None:
    assert set(shapes(network(tokens(1, 41))).values()) == {(41, 1)}


def test_windows_keep_their_maps() -> None:
    found = shapes(network(tokens(3, 80, 256, window=True)))
    assert found["front"] == found["behind"] == (3, 80)
    assert found["one"] == found["two"] == (8, 30)


@pytest.mark.parametrize(("height", "width"), [(16, 12), (7, 7)])
def test_where_nothing_is_gained(height: int, width: int) -> None:
    """Full rows as they are, or pixels that only divide into these rows."""
    assert set(shapes(network(tokens(height, width))).values()) == {(height, width)}


def test_small_maps_between_windows_stay_on_chip() -> None:
    """The way over DDR would cost more than the rows."""
    found = shapes(network(tokens(6, 20, 16, window=True)))
    assert set(found.values()) == {(6, 20)}


@pytest.mark.parametrize("target", ["B256", "B512", "B4096"])
@pytest.mark.parametrize(
    "graph",
    [
        tokens(1, 40), tokens(1, 41, 24), tokens(3, 80, 48), tokens(2, 30, 5),
        tokens(3, 80, 256, window=True), tokens(3, 40, 20, window=True),
    ],
)  # fmt: skip
def test_results(graph: QuantizedGraph, target: str) -> None:
    compile_and_check(graph, target, runs=1)


def test_tensors_say_where_they_are_in_their_own_shape() -> None:
    compiled = compile_and_check(tokens(1, 40), "B4096", runs=1)
    for op in compiled.graph.get_ops():
        tensor = op.get_output_tensor()
        if tensor.has_attr("stride") and len(tensor.dims) == 4:
            _, rows, columns, channels = tensor.dims
            if (rows, columns) == (1, 40):
                assert list(tensor.get_attr("stride"))[1:] == [40 * channels, channels, 1]


@pytest.mark.parametrize("target", ["B512", "B4096"])
def test_one_pixel_for_every_place_stays_one(target: str) -> None:
    """Squeeze and excite on three rows, whose gate is a single pixel."""
    q = Quantized()
    x = q.conv(q.data(3, 64, 64), "front", 256, kernel=1)
    mean = q.pool(q.pool(x, "rows", "maxpool2d", 3, stride=3), "mean", "maxpool2d", 1)
    q.op("all", "reduction_max", (1, 1, 256), [mean], axis=[1, 2], keep_dims=True)
    gate = q.conv(q.fix("all", 5), "gate", 256, kernel=1)
    q.op("product", "mul", (3, 64, 256), [x, gate])
    graph = q.done(q.conv(q.fix("product", 3), "last", 256, kernel=1))
    if target == "B4096":
        found = shapes(network(graph))
        assert (found["gate"], found["product"]) == ((1, 1), (8, 24))
    compile_and_check(graph, target, runs=1)
