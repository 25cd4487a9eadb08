# SPDX-License-Identifier: Apache-2.0
"""Feature maps that leave cascades no room go through DDR; bounds of what cascades cost."""

import dataclasses

import numpy as np
from network_draws import Draw, check, draw_network

from opendpu.compiler.backend import build
from opendpu.compiler.layers import (
    AluLayer,
    ConvLayer,
    EltwiseLayer,
    SharedDepthwiseLayer,
    Window,
)
from opendpu.compiler.network import LayerRange, Network
from opendpu.compiler.network.balance import balance
from opendpu.compiler.planner.cascade.costs import CascadeCosts
from opendpu.compiler.planner.choose_cascades import LONGEST, choose_cascades
from opendpu.compiler.planner.proposal import Restrictions
from opendpu.compiler.planner.revise import unrestricted
from opendpu_arch.isa import AluMode
from opendpu_arch.target import Target

TARGET = Target.from_name("B4096")


def blocks(height: int, width: int, channels: int, count: int) -> Network:
    """1x1 convolutions, each behind a 5x5 depthwise one, which share the work about evenly."""
    draw = Draw(5)
    name = draw.feature(height, width, channels)
    for _ in range(count):
        for kernel in (5, 1):
            output = draw.feature(height, width, channels)
            pad = kernel // 2
            shared = {
                "source": name, "output": output, "bias": draw.bytes(channels), "shift_cut": 9,
                "window": Window(kernel_h=kernel, kernel_w=kernel, pad_top=pad, pad_left=pad),
                "shift_bias": 3,
            }  # fmt: skip
            weights = draw.bytes(channels, kernel, kernel, channels)
            if kernel > 1:
                deep = weights[..., 0].transpose(1, 2, 0)
                draw.layers.append(
                    AluLayer(name=f"deep_{output}", mode=AluMode.DWCV, weights=deep, **shared)
                )
            else:
                draw.layers.append(ConvLayer(name=f"conv_{output}", weights=weights, **shared))
            name = output
    return Network(
        features=draw.features, layers=tuple(draw.layers), inputs=("f0",), outputs=(name,)
    )


def spilled(network: Network) -> frozenset[str]:
    return choose_cascades(network, TARGET).revision.restrictions.spilled


def test_maps_that_nearly_fill_a_bank_group_make_way_for_cascades() -> None:
    network = blocks(80, 12, 240, 8)
    costs = CascadeCosts(network, TARGET)
    assert {"f2", "f4", "f6"} <= costs.resident.keys()
    found = spilled(network)
    assert found and found <= costs.resident.keys()
    check(network, TARGET, 1, check=True)


def test_small_maps_stay_on_chip() -> None:
    assert not spilled(blocks(16, 12, 240, 8))


def assert_bounds(network: Network) -> int:
    """Compare the bound of every possible cascade with its cost; return how many there are."""
    costs, count, compared = CascadeCosts(network, TARGET), len(network.layers), 0
    for first in range(count):
        for last in range(first + 1, min(count, first + LONGEST)):
            found = costs.best(LayerRange(first, last))
            if found is not None:
                assert costs.least(LayerRange(first, last)) <= found[0], (first, last)
                compared += 1
    return compared


def test_no_cascade_costs_less_than_its_busiest_engine(rng: np.random.Generator) -> None:
    assert sum(assert_bounds(draw_network(int(rng.integers(1 << 30)), 8)) for _ in range(12))


def sum_and_depthwise(columns: int, window: Window) -> Network:
    """Four times a map of so many columns, which a depthwise convolution reads."""
    draw = Draw(7)
    source = draw.feature(64, columns, 40)
    added = draw.feature(64, columns, 40)
    draw.layers.append(
        EltwiseLayer(name="add", sources=(source,) * 4, output=added, shift_read=(0,) * 4,
                     shift_write=0)
    )  # fmt: skip
    rows = (64 + 2 * window.pad_top - window.kernel_h) // window.stride_h + 1
    width = (columns + 2 * window.pad_left - window.kernel_w) // window.stride_w + 1
    deep = draw.feature(rows, width, 40)
    weights = draw.bytes(window.kernel_h, window.kernel_w, 40)
    draw.layers.append(
        AluLayer(name="deep", mode=AluMode.DWCV, source=added, output=deep, window=window,
                 weights=weights, bias=draw.bytes(40), shift_cut=9, shift_bias=3)
    )  # fmt: skip
    return Network(
        features=draw.features, layers=tuple(draw.layers), inputs=(source,), outputs=(deep,)
    )


def test_columns_that_no_window_meets_do_not_count() -> None:
    assert assert_bounds(sum_and_depthwise(16, Window(stride_w=8)))


def test_columns_between_tiles_do_not_count() -> None:
    assert assert_bounds(sum_and_depthwise(256, Window(stride_w=16)))


def test_a_single_column_takes_no_longer_where_rows_are_apart() -> None:
    """Its window slides over three columns; rows that share a bank take two cycles, not three."""
    network = sum_and_depthwise(1, Window(kernel_h=3, kernel_w=3, pad_top=1, pad_left=1))
    layer = network.layers[1]
    assert isinstance(layer, AluLayer)
    cycles = [layer.instruction_cycles(1, 3, rows_per_bank=rows) for rows in (1, 2, 4)]
    assert cycles == sorted(cycles)


def alone() -> Network:
    """A 5x5 depthwise convolution and nothing else."""
    network = blocks(40, 12, 96, 1)
    return dataclasses.replace(network, layers=network.layers[:1], outputs=("f1",))


def test_a_layer_that_engines_share_is_a_cascade_of_its_own() -> None:
    network = balance(alone(), TARGET)
    assert isinstance(network.layers[0], SharedDepthwiseLayer)
    proposal = choose_cascades(network, TARGET)
    assert [cascade.layers for cascade in proposal.cascades] == [LayerRange(0, 0)]
    (layer,) = alone().layers
    assert isinstance(layer, AluLayer)
    found = build(alone(), TARGET).schedule
    assert found.busy_cycles["conv"] > 0
    assert found.cycles < 0.9 * layer.total_cycles(network.features, TARGET)
    check(alone(), TARGET, 1, check=True)


def test_a_layer_that_was_refused_as_a_cascade_runs_alone() -> None:
    revision = unrestricted(balance(alone(), TARGET), TARGET)
    apart = Restrictions(apart=frozenset({LayerRange(0, 0)}))
    proposal = choose_cascades(dataclasses.replace(revision, restrictions=apart), TARGET)
    assert not proposal.cascades
