# SPDX-License-Identifier: Apache-2.0
"""Resized inputs of a concatenation that are joined where they are small: when, and the results."""

import pytest
from graph_draws import Quantized, compile_and_check

from opendpu.compiler.kinds import cycles_alone
from opendpu.compiler.layers import MoveLayer
from opendpu.compiler.legalize import legalize
from opendpu.compiler.lower import lower
from opendpu.compiler.network import Network
from opendpu.compiler.network.join_resized import join_resized
from opendpu.compiler.network.planar import planar
from opendpu.ir import QuantizedGraph
from opendpu_arch.target import Target

TARGET = Target.from_name("B4096")


def pyramid(
    *scales: int, channels: int = 24, reader: str = "conv", seen: bool = False, size: int = 32
) -> QuantizedGraph:  # fmt: skip
    """Maps of several sizes, enlarged to one, joined and read."""
    q = Quantized()
    parts, ends = [], []
    for number, scale in enumerate(scales):
        x = q.data(size // scale, size // scale, 16, name=f"x{number}")
        part = q.conv(x, f"part{number}", channels, kernel=1)
        ends += [part] * seen
        if scale > 1:
            factors = [float(scale)] * 2
            large = (size, size, channels)
            q.op(f"up{number}", "resize", large, [part], scale=factors, mode="NEAREST")
            part = q.fix(f"up{number}", 4)
        parts.append(part)
    whole = q.op("whole", "concat", (size, size, channels * len(scales)), parts, axis=3)
    whole = q.fix(whole, 4)
    if reader == "conv":
        y = q.conv(whole, "reader", 16, kernel=3, pad=1)
    else:
        y = q.pool(whole, "reader", reader, 2, stride=2)
    return q.done(y, *ends)


def networks(graph: QuantizedGraph) -> tuple[Network, Network]:
    """Return the network of a graph before and after the pass."""
    fixed = legalize(graph)
    names = [n.name for n in fixed if "input" in n.inputs]
    before = lower(fixed, names, set(fixed.outputs), TARGET, cycles_alone)
    return before, join_resized(before, TARGET)


def repeats(network: Network) -> list[tuple[str | None, int, int]]:
    """Return source, factor and channels of everything that repeats pixels."""
    moves = [layer for layer in network.layers if isinstance(layer, MoveLayer)]
    return [(m.source, m.repeat_w, network.features[m.output].channels) for m in moves]


@pytest.mark.parametrize("scales", [(8, 4, 1), (4, 8, 1)])
def test_the_smaller_one_is_enlarged_to_the_larger(scales: tuple[int, ...]) -> None:
    _, after = networks(pyramid(*scales))
    large, small = sorted((0, 1), key=lambda number: scales[number])
    both = f"part{large}/joined"
    assert set(repeats(after)) == {(f"part{small}", 2, 24), (both, 4, 48)}
    held = after.features[both]
    assert (held.height, held.width, held.channels) == (8, 8, 48)
    offsets = {name: a.offset for name, a in after.aliases.items() if a.holder == both}
    assert sorted(offsets.values()) == [0, 24]
    assert offsets[f"part{large}"] == (0 if large == 0 else 24)


def test_the_convolution_reads_fewer_words() -> None:
    before, after = (planar(network, TARGET) for network in networks(pyramid(8, 4, 1)))
    words = [n.features[n.layers[-1].operands[0]].channels // 16 for n in (before, after)]
    assert words == [6, 5]


@pytest.mark.parametrize(
    ("graph", "why"),
    [
        (pyramid(8, 4, 1, channels=32), "words are full as they are"),
        (pyramid(8, 1, 4), "they are no neighbours"),
        (pyramid(8, 4, 1, reader="maxpool2d"), "the misc engine reads every word once"),
        (pyramid(8, 4, 1, seen=True), "an output has a place of its own"),
        (pyramid(1, 8, 1), "one has its size"),
    ],
)
def test_where_they_stay_apart(graph: QuantizedGraph, why: str) -> None:
    before, after = networks(graph)
    assert after is before, why


@pytest.mark.parametrize(
    ("scales", "channels", "target"),
    [((8, 4, 1), 24, "B4096"), ((4, 8, 2, 1), 24, "B4096"), ((4, 4, 1), 12, "B512")],
)
def test_results(scales: tuple[int, ...], channels: int, target: str) -> None:
    compile_and_check(pyramid(*scales, channels=channels), target, runs=1)
