# SPDX-License-Identifier: Apache-2.0
"""Feature maps that leave cascades no room go through DDR; bounds of what cascades cost."""

import numpy as np
from network_draws import Draw, check, draw_network

from opendpu.compiler.layers import AluLayer, ConvLayer, Window
from opendpu.compiler.network import LayerRange, Network
from opendpu.compiler.planner.cascade.costs import CascadeCosts
from opendpu.compiler.planner.choose_cascades import LONGEST, choose_cascades
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


def test_no_cascade_costs_less_than_its_busiest_engine(rng: np.random.Generator) -> None:
    compared = 0
    for _ in range(12):
        network = draw_network(int(rng.integers(1 << 30)), 8)
        costs, count = CascadeCosts(network, TARGET), len(network.layers)
        for first in range(count):
            for last in range(first + 1, min(count, first + LONGEST)):
                found = costs.best(LayerRange(first, last))
                if found is not None:
                    assert costs.least(LayerRange(first, last)) <= found[0]
                    compared += 1
    assert compared
