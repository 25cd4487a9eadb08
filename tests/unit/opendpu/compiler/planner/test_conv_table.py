# SPDX-License-Identifier: Apache-2.0
"""Candidates for a convolution: they fit the banks, the cheapest first, the cycles by hand."""

import dataclasses

import numpy as np
import pytest
from network_draws import draw_network

from opendpu.compiler.kinds import TILINGS
from opendpu.compiler.layers import ConvLayer, Feature, Window, channel_groups
from opendpu.compiler.network import Network
from opendpu.compiler.planner.tiling.conv_table import ConvSizes, EpilogueSizes, table
from opendpu.compiler.planner.tiling.problem import TilingProblem
from opendpu_arch.target import Target

TARGET = Target.from_name("B512")  # four rows, eight channels


def sizes(**changes: object) -> ConvSizes:
    """Return a pointwise convolution, 8 x 8 pixels, 16 to 24 channels, input and result on chip."""
    source = Feature(name="", height=8, width=8, channels=16)
    made = ConvSizes(
        target=TARGET, window=Window(), reach=ConvLayer.REACH, source=source,
        out=dataclasses.replace(source, channels=24), groups_in=2, taps=2, steps=2, blocks=3,
        weight_cycles=10, row_cycles=(60, 36, 30, 24, 18), streamed=False, on_chip=True,
        saved=False, epilogue=None,
    )  # fmt: skip
    return dataclasses.replace(made, **changes)  # type: ignore[arg-type]


def test_cycles_by_hand() -> None:
    best = next(table(sizes()).candidates())
    # Weights of a block, 10, after 64; then the array, in 2 times 4 rows, is slower than 3 * 10.
    assert (best.columns, best.cycles) == (8, 64 + 10 + 2 * 60 + 16)
    slow = next(table(sizes(weight_cycles=100)).candidates())
    assert slow.cycles == 64 + 100 + 3 * 100 + 16


def test_two_tiles_of_results_hide_what_is_saved() -> None:
    found = list(table(sizes(saved=True, on_chip=False)).candidates())
    whole = {c.buffers: c.cycles for c in found if (c.columns, c.groups) == (8, 3)}
    # A row of 8 pixels: 24 words, two at a time, after 2 cycles; four rows come after the array.
    save = 2 + 24 // 2
    alone = 64 + 10 + 2 * 60 + 16 + 64 + 4 * save
    assert whole == {2: alone, 1: alone + 8 * save}


@pytest.mark.parametrize("changes", [
    {}, {"streamed": True}, {"saved": True}, {"saved": True, "on_chip": False},
    {"epilogue": EpilogueSizes(operands=2, streamed=1, groups=2)},
    {"streamed": True, "taps": 1000}, {"streamed": True, "window": Window(kernel_h=3, pad_top=1)},
])  # fmt: skip
def test_all_fit_the_banks_cheapest_first(changes: dict[str, object]) -> None:
    given = sizes(**changes)
    found = list(table(given).candidates())
    assert found
    assert [c.cycles for c in found] == sorted(c.cycles for c in found)
    depth = TARGET.bank_depth
    for one in found:
        assert one.groups * given.taps <= depth
        assert one.groups * one.columns <= depth
        assert one.capacity * one.shape.stride * given.words(one.columns) <= depth
        assert bool(one.capacity) == given.streamed
    some = found[-1].columns
    assert list(table(given).candidates(some)) == [c for c in found if c.columns == some]
    assert list(table(given).candidates(5)) == found


def test_no_kernel_that_does_not_fit() -> None:
    assert not list(table(sizes(taps=TARGET.bank_depth + 1)).candidates())


def test_equal_layers_have_one_table() -> None:
    table.cache_clear()
    for _ in range(2):
        for seed in range(4):
            network = renamed(draw_network(seed))
            for layer in network.layers:
                problem = TilingProblem(layer=layer, network=network, target=TARGET, whole={})
                list(TILINGS[type(layer)](problem, layer))
    known = table.cache_info()
    assert known.hits >= known.misses > 0


def renamed(network: Network) -> Network:
    """Return a network with other names of feature maps."""
    features = {n: dataclasses.replace(f, name=f"other/{n}") for n, f in network.features.items()}
    return dataclasses.replace(network, features=features)


@pytest.mark.parametrize("seed", range(6))
def test_tilings_say_what_the_layer_needs(seed: int) -> None:
    network = draw_network(seed)
    for layer in network.layers:
        if not isinstance(layer, ConvLayer):
            continue
        problem = TilingProblem(layer=layer, network=network, target=TARGET, whole={})
        out = network.features[layer.output]
        found = list(TILINGS[ConvLayer](problem, layer))
        assert found
        assert np.all(np.diff([tiling.cycles for tiling in found]) >= 0)
        assert {tiling.nest.groups for tiling in found} <= {
            *range(1, channel_groups(out, TARGET) + 1)
        }
        assert all(tiling.nest.columns <= out.width for tiling in found)
