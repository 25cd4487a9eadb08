# SPDX-License-Identifier: Apache-2.0
"""Enlargements whose columns one convolution makes, whatever their phase: where, and results."""

import numpy as np
import pytest
from graph_draws import Quantized, compile_and_check
from random_graphs import draw
from random_graphs.check import check

from opendpu.compiler.kinds import cycles_alone
from opendpu.compiler.layers import AluLayer, BlockwiseConvLayer
from opendpu.compiler.legalize import legalize
from opendpu.compiler.lower import interleaved, lower
from opendpu.compiler.network import Network
from opendpu.ir import QuantizedGraph
from opendpu_arch.target import Target

TARGET = Target.from_name("B4096")
KIND = "transposed-depthwise-conv2d"


def transposed(
    channels: int, kernel: int, stride: int, pad: int, size: tuple[int, int] = (10, 12)
) -> QuantizedGraph:
    """A transposed depthwise convolution of a map of so many channels."""
    q = Quantized()
    shape = [(n - 1) * stride + kernel - 2 * pad for n in size]
    given = {
        "input": [q.data(*size, channels)],
        "weights": [q.const("w", 1, kernel, kernel, channels, point=8)],
        "bias": [q.const("b", channels, point=6)],
    }
    attrs = {
        "kernel": [kernel] * 2, "stride": [stride] * 2, "pad": [pad] * 4, "pad_mode": "FLOOR"
    }  # fmt: skip
    q.graph.add("up", KIND, (1, *shape, channels), given, attrs)
    return q.done(q.finish("up", 4))


def network(graph: QuantizedGraph, target: Target = TARGET) -> Network:
    fixed = legalize(graph)
    names = [n.name for n in fixed if "input" in n.inputs]
    return lower(fixed, names, set(fixed.outputs), target, cycles_alone)


def computing(graph: QuantizedGraph) -> list[type]:
    """Return the kinds of the layers that compute."""
    kinds = (type(layer) for layer in network(graph).layers)
    return [kind for kind in kinds if kind in (AluLayer, BlockwiseConvLayer)]


def test_few_channels_have_a_layer_for_each_row_of_a_block() -> None:
    assert computing(transposed(4, 16, 8, 4)) == [BlockwiseConvLayer] * 8


def test_many_channels_have_one_for_each_pixel() -> None:
    assert computing(transposed(256, 4, 2, 1)) == [AluLayer] * 4


def test_rows_are_saved_whole() -> None:
    made = network(transposed(4, 16, 8, 4))
    for name, alias in made.aliases.items():
        feature = made.features[name]
        assert alias.pixel_bytes == feature.channels == 32


@pytest.mark.parametrize("target", ["B64", "B512", "B4096"])
@pytest.mark.parametrize(
    "graph",
    [
        transposed(5, 4, 2, 1), transposed(3, 16, 8, 4), transposed(9, 3, 2, 0),
        transposed(21, 6, 3, 1), transposed(2, 7, 4, 2, (5, 9)),
    ],
)  # fmt: skip
def test_results(graph: QuantizedGraph, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interleaved, "cycles_apart", lambda *_: 1 << 60)
    assert not compile_and_check(graph, target, runs=1).report.on_cpu


@pytest.mark.parametrize("part", range(2))
def test_random_graphs(
    part: int, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interleaved, "cycles_apart", lambda *_: 1 << 60)
    for number in range(12):
        seed = int(rng.integers(1 << 30))
        grower = draw(seed, tables=number % 2 == 0)
        check(grower.graph, grower.target, seed)


@pytest.mark.parametrize(("seed", "tables"), [(91001876, False), (91003737, True)])
def test_graphs_that_failed(seed: int, tables: bool) -> None:
    """Zeros between the channels of weights, and rows exchanged with columns, but not in parts."""
    grower = draw(seed, tables=tables)
    check(grower.graph, grower.target, seed)
