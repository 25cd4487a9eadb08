# SPDX-License-Identifier: Apache-2.0
"""Resizes that LOAD does: for sums, convolutions, concatenations; and where a copy has to stay."""

import pytest
from graph_draws import Quantized, compile_and_check

from opendpu.compiler.kinds import cycles_alone
from opendpu.compiler.layers import MoveLayer
from opendpu.compiler.legalize import legalize
from opendpu.compiler.lower import lower
from opendpu.compiler.network.planar import planar
from opendpu.compiler.network.repeat import repeat
from opendpu.ir import QuantizedGraph
from opendpu_arch.isa import Save, decode
from opendpu_arch.target import Target

TARGETS = ("B256", "B512", "B4096")
SCALES = ((2, 2), (1, 3), (3, 1), (8, 4))


def enlarged(
    reader: str, rows: int, columns: int, channels: int = 24, size: tuple[int, int] = (6, 7)
) -> QuantizedGraph:
    """A small map and a large one, put together in some way, and a layer behind them."""
    q = Quantized()
    height, width = size[0] * rows, size[1] * columns
    small = q.conv(q.data(*size, 8, name="small"), "low", channels, kernel=1)
    scale = [float(columns), float(rows)]
    q.op("up", "resize", (height, width, channels), [small], scale=scale, mode="NEAREST")
    up = q.fix("up", 4)
    if reader in ("add", "concat"):
        large = q.conv(q.data(height, width, 8, name="large"), "high", channels, kernel=1)
        if reader == "add":
            up = q.add([large, up], "sum")
        else:
            q.op("join", "concat", (height, width, 2 * channels), [up, large], axis=3)
            up = q.fix("join", 4)
    if reader == "output":
        return q.done(q.conv(up, "last", 16, kernel=3, pad=1), up)
    if reader == "pool":
        return q.done(q.pool(up, "last", "maxpool2d", 3, stride=1, pad=1))
    return q.done(q.conv(up, "last", 16, kernel=3, pad=1))


def copies(graph: QuantizedGraph, target: str = "B4096") -> list[str]:
    """Return the layers that still only move data."""
    fixed, chosen = legalize(graph), Target.from_name(target)
    names = [n.name for n in fixed if "input" in n.inputs]
    network = lower(fixed, names, set(fixed.outputs), chosen, cycles_alone)
    network = repeat(planar(network, chosen), chosen)
    return [layer.name for layer in network.layers if isinstance(layer, MoveLayer)]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("rows", "columns"), SCALES)
@pytest.mark.parametrize("reader", ["add", "conv", "concat", "pool"])
def test_results(reader: str, rows: int, columns: int, target: str) -> None:
    compile_and_check(enlarged(reader, rows, columns), target, runs=1)


@pytest.mark.parametrize("channels", [3, 16, 130])
def test_channels_and_tiles_of_columns(channels: int) -> None:
    compile_and_check(enlarged("add", 2, 3, channels, (9, 50)), "B512", runs=1)


@pytest.mark.parametrize(
    ("reader", "left"),
    [("add", []), ("conv", []), ("concat", []), ("pool", []), ("output", ["up"])],
)
def test_what_is_copied(reader: str, left: list[str]) -> None:
    assert copies(enlarged(reader, 2, 2)) == left


def test_the_enlarged_map_is_never_saved() -> None:
    compiled = compile_and_check(enlarged("conv", 4, 4), "B4096", runs=1)
    (program,) = (
        s for s in compiled.graph.get_root_subgraph().get_children() if s.has_attr("mc_code")
    )
    saves = [i for i in decode(program.get_attr("mc_code")) if isinstance(i, Save)]
    assert sum(i.length * i.channel for i in saves) == 6 * 7 * 24 + 24 * 28 * 16
    up = next(op for op in compiled.graph.get_ops() if op.get_name().startswith("up"))
    assert up.get_output_tensor().get_attr("location") == 0


def test_a_resize_of_a_resize() -> None:
    q = Quantized()
    x = q.conv(q.data(5, 6, 8), "low", 16, kernel=1)
    q.op("one", "resize", (10, 18, 16), [x], scale=[3.0, 2.0], mode="NEAREST")
    q.op("two", "resize", (20, 36, 16), [q.fix("one", 4)], scale=[2.0, 2.0], mode="NEAREST")
    graph = q.done(q.conv(q.fix("two", 4), "last", 8, pad=1))
    assert not compile_and_check(graph, "B512", runs=1).report.on_cpu
