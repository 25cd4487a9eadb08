# SPDX-License-Identifier: Apache-2.0
"""Concatenated channels plane by plane: where it pays, where it cannot be, and the same results."""

import numpy as np
import pytest
from graph_draws import Quantized, compile_and_check

from opendpu.compiler.kinds import cycles_alone
from opendpu.compiler.legalize import legalize
from opendpu.compiler.lower import lower
from opendpu.compiler.network import Network
from opendpu.compiler.network.planar import planar
from opendpu.ir import QuantizedGraph
from opendpu_arch.isa import Save, decode
from opendpu_arch.target import Target

TARGET = Target.from_name("B4096")


def joined(*channels: int, reader: str = "conv", output: bool = False) -> QuantizedGraph:
    """Convolutions of one input, joined for one reader and perhaps for the user."""
    q = Quantized()
    x = q.data(24, 20, 8)
    parts = [q.conv(x, f"part{n}", size, kernel=1) for n, size in enumerate(channels)]
    whole = q.op("whole", "concat", (24, 20, sum(channels)), parts, axis=3)
    whole = q.fix(whole, 4)
    if reader == "conv":
        y = q.conv(whole, "reader", 24, kernel=3, pad=1)
    else:
        y = q.pool(whole, "reader", reader, 2, stride=2)
    return q.done(y, *[whole] * output)


def networks(graph: QuantizedGraph) -> tuple[Network, Network]:
    """Return the network of a graph before and after the pass."""
    fixed = legalize(graph)
    names = [n.name for n in fixed if "input" in n.inputs]
    before = lower(fixed, names, set(fixed.outputs), TARGET, cycles_alone)
    return before, planar(before, TARGET)


def planes(network: Network) -> list[tuple[int, ...]]:
    """Return the channels of the planes of every feature map that has some."""
    every = network.features
    return [tuple(every[part].channels for part in f.planes) for f in every.values() if f.planes]


def test_each_input_is_dense_and_starts_a_word() -> None:
    before, after = networks(joined(24, 16, 24))
    (whole,) = (f for f in after.features.values() if f.planes)
    assert (planes(after), whole.channels) == ([(24, 16, 24)], 32 + 16 + 32)
    pixels = 24 * 20
    places = {(a.offset, a.pixel_bytes, a.row_bytes) for a in after.aliases.values()}
    assert places == {(0, 24, 480), (24 * pixels, 16, 320), (40 * pixels, 24, 480)}
    old, new = (n.layers[-1].constants["weights"] for n in (before, after))
    at = np.r_[0:24, 32:48, 48:72]
    np.testing.assert_array_equal(new[..., at], old)
    assert not np.delete(new, at, axis=3).any()


@pytest.mark.parametrize(
    ("graph", "why"),
    [
        (joined(128, 128), "every pixel is a long burst as it is"),
        (joined(24, 16, reader="maxpool2d"), "a pooling would make the empty lanes too"),
        (joined(24, 16, output=True), "an output has the user's layout"),
    ],
)
def test_where_pixels_stay_together(graph: QuantizedGraph, why: str) -> None:
    assert planes(networks(graph)[1]) == [], why


def test_whole_words_for_any_reader() -> None:
    assert planes(networks(joined(16, 32, reader="maxpool2d"))[1]) == [(16, 32)]


@pytest.mark.parametrize("target", ["B512", "B4096"])
@pytest.mark.parametrize(
    "graph",
    [joined(24, 16, 24), joined(3, 5, 7), joined(16, 32, reader="maxpool2d"),
     joined(16, 48, reader="avgpool2d"), joined(5, 5, output=True)],
)  # fmt: skip
def test_results(graph: QuantizedGraph, target: str) -> None:
    compile_and_check(graph, target, runs=1)


def test_planes_are_nowhere_as_one_tensor() -> None:
    compiled = compile_and_check(joined(24, 24), "B4096", runs=1)
    (op,) = (op for op in compiled.graph.get_ops() if op.get_type() == "concat-fix")
    assert op.get_output_tensor().get_attr("location") == 0


def test_bursts_are_long() -> None:
    compiled = compile_and_check(joined(24, 24, 24), "B4096", runs=1)
    (program,) = (
        s for s in compiled.graph.get_root_subgraph().get_children() if s.has_attr("mc_code")
    )
    saves = [i for i in decode(program.get_attr("mc_code")) if isinstance(i, Save)]
    assert saves and all(i.jump_write <= i.channel for i in saves if i.length > 1)
