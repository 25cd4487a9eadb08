# SPDX-License-Identifier: Apache-2.0
"""Channels that are made several times for an enlargement: where, what it saves, and results."""

import pytest
from graph_draws import Quantized, compile_and_check

from opendpu.compiler.kinds import cycles_alone
from opendpu.compiler.layers import BlockwiseConvLayer, ConvLayer
from opendpu.compiler.legalize import legalize
from opendpu.compiler.lower import interleaved, lower
from opendpu.compiler.network import Network
from opendpu.compiler.network.repeat_channels import repeat_channels
from opendpu.ir import QuantizedGraph
from opendpu_arch.target import Target

TARGET = Target.from_name("B4096")


def enlarged(
    channels: int, factor: int, *, border: bool = True, size: tuple[int, int] = (9, 11),
    again: bool = False, inputs: int = 24,
) -> QuantizedGraph:  # fmt: skip
    """The end of a segmentation network: 1x1 convolution, border, bilinear enlargement.

    ``again``: the scores of the small map are a result, too.
    """
    q = Quantized()
    scores = source = q.conv(q.data(*size, inputs), "scores", channels, kernel=1, point=4)
    height, width = size
    if border:
        height, width = height + 2, width + 2
        paddings = [0, 0, 1, 1, 1, 1, 0, 0]
        attrs = {"paddings": paddings, "mode": "SYMMETRIC"}
        shape = (1, height, width, channels)
        source = q.fix(q.graph.add("border", "pad", shape, {"input": [source]}, attrs).name, 4)
    kernel = 2 * factor
    cut = factor // 2 + factor * border
    given = {
        "input": [source],
        "weights": [q.const("w", 1, kernel, kernel, channels, point=8)],
        "bias": [q.const("b", channels, point=6)],
    }
    rows, columns = ((n - 1) * factor + kernel - 2 * cut for n in (height, width))
    q.graph.add(
        "up", "transposed-depthwise-conv2d", (1, rows, columns, channels), given,
        {"kernel": [kernel] * 2, "stride": [factor] * 2, "pad": [cut] * 4, "pad_mode": "FLOOR"},
    )  # fmt: skip
    result = q.finish("up", 4)
    return q.done(result, scores) if again else q.done(result)


def network(graph: QuantizedGraph, target: Target = TARGET) -> Network:
    fixed = legalize(graph)
    names = [n.name for n in fixed if "input" in n.inputs]
    return lower(fixed, names, set(fixed.outputs), target, cycles_alone)


def words_met(made: Network) -> set[int]:
    """Return how many words of a pixel the blocks of output channels meet."""
    found = [one for one in made.layers if isinstance(one, BlockwiseConvLayer)]
    return {part.groups for layer in found for part in layer.parts}


@pytest.fixture
def always_interleaved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interleaved, "cycles_apart", lambda *_: 1 << 60)


@pytest.mark.usefixtures("always_interleaved")
@pytest.mark.parametrize("border", [False, True])
def test_every_block_meets_one_word(border: bool) -> None:
    before = network(enlarged(21, 16, border=border))
    after = repeat_channels(before, TARGET)
    assert words_met(before) == {1, 2} and words_met(after) == {1}
    assert after.features["scores"].channels == 16 * 21


@pytest.mark.usefixtures("always_interleaved")
def test_no_more_copies_than_to_the_end_of_a_word() -> None:
    after = repeat_channels(network(enlarged(20, 16)), TARGET)
    assert after.features["scores"].channels == 4 * 20


@pytest.mark.usefixtures("always_interleaved")
@pytest.mark.parametrize(
    "graph", [enlarged(16, 8), enlarged(21, 8, again=True), enlarged(21, 2, inputs=512)],
    ids=["whole-word", "read-by-others", "saves-nothing"],
)  # fmt: skip
def test_otherwise_nothing_changes(graph: QuantizedGraph) -> None:
    before = network(graph)
    assert repeat_channels(before, TARGET) is before


def test_it_saves_a_third() -> None:
    """Scores of 20x20 pixels with 21 classes, enlarged to 320x320."""
    before = network(enlarged(21, 16, size=(20, 20)))
    cycles = [
        sum(
            layer.total_cycles(one.features, TARGET)
            for layer in one.layers
            if isinstance(layer, ConvLayer)
        )
        for one in (before, repeat_channels(before, TARGET))
    ]
    assert cycles[1] * 3 < cycles[0] * 2


@pytest.mark.usefixtures("always_interleaved")
@pytest.mark.parametrize("target", ["B64", "B512", "B4096", "B4096+channel"])
@pytest.mark.parametrize(
    "graph",
    [
        enlarged(21, 8), enlarged(19, 16, size=(3, 20)), enlarged(20, 8, border=False),
        enlarged(5, 4), enlarged(11, 4, border=False, size=(13, 4)),
    ],
)  # fmt: skip
def test_results(graph: QuantizedGraph, target: str) -> None:
    assert not compile_and_check(graph, target, runs=1).report.on_cpu
