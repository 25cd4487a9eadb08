# SPDX-License-Identifier: Apache-2.0
"""Depthwise convolutions of which a cascade makes some channels on the array."""

import dataclasses

import numpy as np
import pytest
from graph_draws import Quantized, compile_and_check
from network_draws import Draw, check, draw_network, replace_pass, share_everything

from opendpu.compiler import backend
from opendpu.compiler.backend import build
from opendpu.compiler.layers import (
    AluLayer,
    ConvLayer,
    EltwiseLayer,
    SharedDepthwiseLayer,
    Window,
    misc,
)
from opendpu.compiler.network import LayerRange, Network
from opendpu.compiler.network.balance import balance
from opendpu.compiler.planner.cascade.costs import CascadeCosts
from opendpu.ir import QuantizedGraph
from opendpu_arch.isa import ActType, Alu, AluMode, Conv
from opendpu_arch.target import Target

TARGET = Target.from_name("B4096")


def blocks(kernel: int, count: int = 2, channels: int = 240) -> Network:
    """1x1 and depthwise convolutions in turn, with a sum of each depthwise one with its input."""
    draw = Draw(3)
    name = draw.feature(40, 12, channels)
    window = Window(kernel_h=kernel, kernel_w=kernel, pad_top=kernel // 2, pad_left=kernel // 2)
    for _ in range(count):
        made = [draw.feature(40, 12, channels) for _ in range(3)]
        draw.layers.append(
            ConvLayer(name=f"conv_{made[0]}", source=name, output=made[0], window=Window(),
                      weights=draw.bytes(channels, 1, 1, channels), bias=draw.bytes(channels),
                      shift_cut=9, shift_bias=3, act_type=ActType.RELU)
        )  # fmt: skip
        draw.layers.append(
            AluLayer(name=f"deep_{made[1]}", source=made[0], output=made[1], mode=AluMode.DWCV,
                     window=window, weights=draw.bytes(kernel, kernel, channels),
                     bias=draw.bytes(channels), shift_cut=8, shift_bias=3)
        )  # fmt: skip
        draw.layers.append(
            EltwiseLayer(name=f"add_{made[2]}", sources=(made[0], made[1]), output=made[2],
                         shift_read=(1, 0), shift_write=16)
        )  # fmt: skip
        name = made[2]
    return Network(
        features=draw.features, layers=tuple(draw.layers), inputs=("f0",), outputs=(name,)
    )


def test_a_large_kernel_is_shared_where_the_misc_engine_has_more_to_do() -> None:
    layers = [x for x in balance(blocks(5), TARGET).layers if isinstance(x, SharedDepthwiseLayer)]
    assert layers
    for layer in layers:
        assert layer.array_groups > 0 and layer.misc_groups > 0
        assert layer.array_groups + layer.misc_groups == 15


def test_layers_with_tables_are_shared_too() -> None:
    network = blocks(5)
    table = np.arange(-128, 128, dtype=np.int16).astype(np.int8)
    layers = tuple(
        dataclasses.replace(x, table=table) if isinstance(x, AluLayer) else x
        for x in network.layers
    )
    made = balance(dataclasses.replace(network, layers=layers), Target.from_name("B4096+table"))
    shared = [x for x in made.layers if isinstance(x, SharedDepthwiseLayer)]
    assert shared
    for layer in shared:
        assert layer.table is not None and layer.array.table is not None


def _silu(q: Quantized, source: str, name: str) -> str:
    return q.fix(q.op(name, "swish", q.graph[source].shape[1:], [source]), 5)


def with_tables(channels: int, kernel: int) -> QuantizedGraph:
    """Convolutions and depthwise ones in turn, all with SiLU."""
    q = Quantized(kernel)
    x = q.data(12, 14, 10)
    for number in range(2):
        x = _silu(q, q.conv(x, f"wide{number}", channels, kernel=1), f"a{number}")
        x = q.conv(x, f"deep{number}", channels, kernel, pad=kernel // 2, kind="depthwise-conv2d")
        x = _silu(q, x, f"b{number}")
    return q.done(x)


@pytest.mark.parametrize("short", [1, misc.SHORT_PASS])
@pytest.mark.parametrize(("kernel", "channels"), [(5, 60), (3, 35), (7, 130)])
def test_results_with_tables(
    kernel: int, channels: int, short: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backend, "BACKEND_PASSES", replace_pass("balance", share_everything))
    monkeypatch.setattr(misc, "SHORT_PASS", short)
    for target in ("B512+table", "B4096+table"):
        assert not compile_and_check(with_tables(channels, kernel), target, runs=1).report.on_cpu


def test_what_the_misc_engine_does_in_one_step_is_not_shared() -> None:
    assert not any(isinstance(x, SharedDepthwiseLayer) for x in balance(blocks(3), TARGET).layers)


def test_an_array_that_is_busy_gets_nothing() -> None:
    network = blocks(5, channels=512)
    assert balance(network, TARGET).layers == network.layers


def test_both_engines_make_rows_of_one_layer_at_the_same_time() -> None:
    network = blocks(5)
    program = build(network, TARGET)
    plan = program.plan
    names = {
        p.layer.name
        for cascade in plan.cascades
        for p in (plan.layers[n] for n in cascade.layers.numbers)
        if isinstance(p.layer, SharedDepthwiseLayer)
    }
    assert names
    timing = program.schedule
    commands = zip(timing.layers, timing.instructions, timing.start, timing.end, strict=True)
    own = [(i, start, end) for name, i, start, end in commands if name in names]
    array = [(a, b) for i, a, b in own if isinstance(i, Conv)]
    misc = [(a, b) for i, a, b in own if isinstance(i, Alu)]
    assert any(a < d and c < b for a, b in array for c, d in misc)


def test_sharing_saves_cycles(monkeypatch: pytest.MonkeyPatch) -> None:
    network = blocks(5)
    with_sharing = build(network, TARGET).schedule.cycles
    monkeypatch.setattr(backend, "BACKEND_PASSES", replace_pass("balance", lambda n, _: n))
    assert with_sharing < 0.95 * build(network, TARGET).schedule.cycles


def test_no_cascade_with_shared_layers_costs_less_than_the_bound(rng: np.random.Generator) -> None:
    compared = 0
    for _ in range(4):
        network = share_everything(draw_network(int(rng.integers(1 << 30)), 6), TARGET)
        costs, count = CascadeCosts(network, TARGET), len(network.layers)
        for first in range(count):
            for last in range(first + 1, count):
                found = costs.best(LayerRange(first, last))
                if found is not None:
                    assert costs.least(LayerRange(first, last)) <= found[0]
                    compared += 1
    assert compared


@pytest.mark.parametrize("target", ["B512", "B1152", "B4096"])
@pytest.mark.parametrize("seed", range(10))
def test_the_same_bytes(seed: int, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "BACKEND_PASSES", replace_pass("balance", share_everything))
    check(draw_network(2000 + seed, most_layers=6), Target.from_name(target), seed, check=True)


@pytest.mark.parametrize(("kernel", "channels"), [(5, 96), (5, 40), (7, 72), (3, 96)])
def test_in_a_cascade(kernel: int, channels: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "BACKEND_PASSES", replace_pass("balance", share_everything))
    check(blocks(kernel, channels=channels), TARGET, 1, check=True)


@pytest.mark.parametrize("target", ["B512", "B4096+table"])
@pytest.mark.parametrize("seed", range(6))
def test_the_misc_engine_follows_the_array_by_channel_groups(
    seed: int, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(misc, "SHORT_PASS", 1)
    if seed % 2:
        monkeypatch.setattr(backend, "BACKEND_PASSES", replace_pass("balance", share_everything))
    check(draw_network(3000 + seed, most_layers=6), Target.from_name(target), seed, check=True)


def test_low_maps_are_made_in_parts_of_their_channels() -> None:
    """A depthwise layer starts when the array has made its first blocks of channels."""
    network = blocks(5, count=1, channels=512)
    low = {
        name: dataclasses.replace(feature, height=8) for name, feature in network.features.items()
    }
    network = dataclasses.replace(network, features=low)
    program = check(network, TARGET, 1, check=True)
    timing = program.schedule
    commands = zip(timing.layers, timing.instructions, timing.start, timing.end, strict=True)
    own = [(i, start, end) for _, i, start, end in commands]
    array_end = max(end for i, _, end in own if isinstance(i, Conv))
    starts = [start for i, start, _ in own if isinstance(i, Alu)]
    assert len(starts) > 2 and min(starts) < array_end
