# SPDX-License-Identifier: Apache-2.0
"""Pixels that become channels: where blocks of lanes are filled, where not, the same results."""

import numpy as np
import pytest
from graph_draws import Quantized, compile_and_check
from network_draws import check as check_network
from network_draws import draw_network, replace_pass
from random_graphs import draw
from random_graphs.check import check

from opendpu.compiler import backend
from opendpu.compiler.kinds import cycles_alone
from opendpu.compiler.layers import BlockwiseConvLayer, ConvLayer, Feature, Features, Layer
from opendpu.compiler.legalize import legalize
from opendpu.compiler.lower import lower
from opendpu.compiler.network import Network, space_to_depth, transpose
from opendpu.ir import QuantizedGraph
from opendpu_arch.isa import Engine
from opendpu_arch.target import Target

TARGET = Target.from_name("B4096")


def alone(channels: int = 24, width: int = 20, kernel: int = 3, inputs: int = 32) -> QuantizedGraph:
    """One convolution, from input to output."""
    q = Quantized()
    return q.done(q.conv(q.data(64, width, inputs), "a", channels, kernel, pad=kernel // 2))


def gated(
    channels: int = 24, window: int = 4, reader: str = "", size: int = 64
) -> QuantizedGraph:  # fmt: skip
    """A convolution whose result is gated by its own mean and added to that, as in necks."""
    q = Quantized()
    a = q.conv(q.data(size, size, 32), "a", channels, pad=1)
    mean = q.pool(a, "part", "avgpool2d", window, window)
    mean = q.pool(mean, "mean", "avgpool2d", size // window, 1)
    gate = q.conv(q.conv(mean, "down", 6, 1, act="relu"), "up", channels, 1, point=5)
    q.op("gate", "hard-sigmoid", (1, 1, channels), [gate])
    q.op("scaled", "mul", (size, size, channels), [a, q.fix("gate", 7)])
    y = q.add([a, q.fix("scaled", 4)], "sum")
    match reader:
        case "point":
            y = q.conv(y, "reader", 40, 1)
        case "window":
            y = q.conv(y, "reader", 32, pad=1)
        case "pool":
            y = q.pool(y, "reader", "maxpool2d", 2, 2)
    return q.done(y)


def networks(graph: QuantizedGraph, target: Target = TARGET) -> tuple[Network, Network]:
    """Return the network of a graph before and after the pass."""
    fixed = legalize(graph)
    names = [n.name for n in fixed if "input" in n.inputs]
    before = lower(fixed, names, set(fixed.outputs), target, cycles_alone)
    return before, space_to_depth.space_to_depth(before, target, cycles_alone)


def shapes(network: Network) -> dict[str, tuple[int, int, int]]:
    """Return rows, columns and channels of what each layer makes, by op."""
    every = network.features
    made = {layer.op: every[layer.output] for layer in network.layers}
    return {op: (f.height, f.width, f.channels) for op, f in made.items()}


def array_cycles(layer: Layer, network: Network) -> int:
    assert isinstance(layer, ConvLayer)
    return layer.engine_cycles(network.features, TARGET)[Engine.CONV]


def test_a_block_between_two_pixels_has_a_wider_kernel() -> None:
    before, after = networks(alone())
    (old,), (new,) = before.layers, after.layers
    assert isinstance(new, BlockwiseConvLayer)
    assert (new.window.kernel_w, new.window.stride_w) == (4, 2)
    windows = [part.window for part in new.parts]
    assert [(w.kernel_w, w.pad_left) for w in windows] == [(3, 1), (4, 1), (3, 0)]
    assert array_cycles(new, after) < 0.85 * array_cycles(old, before)
    alias = after.aliases[new.output]
    assert (alias.offset, alias.pixel_bytes, alias.row_bytes) == (0, 48, 480)


def test_each_block_has_its_own_weights() -> None:
    before, after = networks(alone())
    (old,), (new,) = before.layers, after.layers
    assert isinstance(old, ConvLayer) and isinstance(new, BlockwiseConvLayer)
    packed, found = new.constants["weights"], []
    for block in range(3):
        own = new.block_weights(block)
        size = int(np.prod(own.shape))
        found.append(packed[own.offset : own.offset + size].reshape(own.shape))
    assert sum(part.size for part in found) == packed.size
    np.testing.assert_array_equal(found[0], old.weights[:16])
    np.testing.assert_array_equal(found[1][:8, :, :3], old.weights[16:])
    np.testing.assert_array_equal(found[1][8:, :, 1:], old.weights[:8])
    assert not found[1][:8, :, 3].any() and not found[1][8:, :, 0].any()
    np.testing.assert_array_equal(found[2], old.weights[8:])


def test_what_meets_on_chip_changes_together() -> None:
    before, after = networks(gated())
    assert shapes(before)["a"] == (64, 64, 24)
    found = shapes(after)
    assert [found[op] for op in ("a", "scaled", "sum")] == [(64, 32, 48)] * 3
    assert [found[op] for op in ("up", "gate")] == [(1, 1, 48)] * 2
    assert [found[op] for op in ("part", "mean", "down")] == [
        (16, 16, 24), (1, 1, 24), (1, 1, 6)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("graph", "why"),
    [
        (alone(32), "all lanes are used"),
        (alone(30), "a third block would be as idle"),
        (alone(width=19), "no group of pixels fills a row"),
        (alone(kernel=16), "the kernel would be wider than an instruction can say"),
        (alone(width=8), "the weights of more channels take longer to load"),
        (gated(window=1), "a mean whose windows are single pixels has no halves"),
        (gated(reader="window"), "a window meets the map on chip"),
        (gated(reader="pool"), "a maximum has no array"),
    ],
)
def test_where_pixels_stay(graph: QuantizedGraph, why: str) -> None:
    before, after = networks(graph)
    assert after is before, why


def test_where_a_layer_has_no_room() -> None:
    graph = alone()
    before, after = networks(graph)
    assert after is not before

    def nowhere(layer: Layer, features: Features, target: Target) -> int | None:
        assert isinstance(features[layer.output], Feature)
        return None

    assert space_to_depth.space_to_depth(before, TARGET, nowhere) is before


@pytest.mark.parametrize("target", ["B512", "B4096"])
@pytest.mark.parametrize(
    "graph",
    [alone(), alone(2, width=24), alone(20, kernel=5), alone(5, width=21, kernel=2),
     gated(reader="point"), gated(20, 2)],
)  # fmt: skip
def test_results(graph: QuantizedGraph, target: str) -> None:
    compile_and_check(graph, target, runs=1)


def test_fewer_cycles(monkeypatch: pytest.MonkeyPatch) -> None:
    after = compile_and_check(gated(), "B4096", runs=1).report
    with monkeypatch.context() as patched:
        patched.setattr(space_to_depth, "LEAST_SHARE", 1.0)
        before = compile_and_check(gated(), "B4096", runs=1).report
    cycles = [sum(part.cycles for part in found.subgraphs) for found in (after, before)]
    assert cycles[0] < 0.95 * cycles[1]


def test_groups_that_meet_in_ddr_may_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two pixels in one for the convolution that writes a map, three for the one that reads it."""
    monkeypatch.setattr(transpose, "LEAST_SHARE", -1)
    seed = 269097325
    check_network(draw_network(seed, most_layers=8), Target.from_name("B1152"), seed, check=True)


def test_random_graphs_where_it_does_not_pay(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Willing(space_to_depth.Group):
        def _saved(self) -> int:
            return 9 - self.pixels

    changed = 0

    def counted(network: Network, target: Target) -> Network:
        nonlocal changed
        made = space_to_depth.space_to_depth(network, target, cycles_alone)
        changed += made is not network
        return made

    monkeypatch.setattr(space_to_depth, "Group", Willing)
    monkeypatch.setattr(space_to_depth, "may_gain", lambda *_: True)
    monkeypatch.setattr(backend, "BACKEND_PASSES", replace_pass("space_to_depth", counted))
    for _ in range(200):
        seed = int(rng.integers(1 << 30))
        grower = draw(seed)
        check(grower.graph, grower.target, seed)
        if changed >= 4:
            break
    assert changed >= 4
