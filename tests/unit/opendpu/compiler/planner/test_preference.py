# SPDX-License-Identifier: Apache-2.0
"""Rows a bank of a feature map, and the readers that had better load it from DDR."""

import numpy as np
import pytest

from opendpu.compiler.layers import ConvLayer, EltwiseLayer, Feature, Window
from opendpu.compiler.layers.cost import LATENCY, conv_cycles, transfer_cycles
from opendpu.compiler.network import Network
from opendpu.compiler.planner.preference import preferred_layout
from opendpu_arch.target import Target

TARGET = Target.from_name("B4096")
TRANSFER = LATENCY + 32 * transfer_cycles(32, 16, 16, TARGET.channel_parallel)
"""Cycles to save or load the map."""


def network(*outputs: int) -> Network:
    """A sum, and convolutions of every second pixel that read it, of so many channels each."""
    names = ("a", "b", "sum")
    features = {n: Feature(name=n, height=32, width=32, channels=16) for n in names}
    layers: list[ConvLayer | EltwiseLayer] = [
        EltwiseLayer(
            name="sum", output="sum", op="sum", sources=("a", "b"), shift_read=(0, 0), shift_write=0
        )
    ]
    for number, channels in enumerate(outputs):
        name = f"y{number}"
        features[name] = Feature(name=name, height=16, width=16, channels=channels)
        layers.append(
            ConvLayer(
                name=name, output=name, op=name, source="sum",
                window=Window(kernel_h=1, kernel_w=1, stride_h=2, stride_w=2),
                weights=np.ones((channels, 1, 1, 16), np.int8), bias=np.zeros(channels, np.int8),
                shift_cut=4, shift_bias=0,
            )
        )  # fmt: skip
    made = tuple(layer.output for layer in layers)
    return Network(features=features, layers=tuple(layers), inputs=names[:2], outputs=made[1:])


@pytest.mark.parametrize(
    ("outputs", "rows", "elsewhere"),
    [
        ((32,), 1, set()),
        ((48,), 1, set()),
        ((160,), 1, {1}),
        ((16, 160), 1, {2}),
        ((48, 160), 2, set()),
    ],
)
def test_a_reader_loads_where_that_and_the_saving_cost_less(
    outputs: tuple[int, ...], rows: int, elsewhere: set[int]
) -> None:
    """A map is saved once for all; without that a transfer would look cheaper than it is."""
    net = network(*outputs)
    misfits = [layer.single_row_cycles(net.features, TARGET) for layer in net.layers[1:]]
    assert [misfit > TRANSFER for misfit in misfits] == [channels > 32 for channels in outputs]
    producer = net.layers[0]
    assert isinstance(producer, EltwiseLayer)
    found = preferred_layout(net, TARGET, "sum", producer, range(1, len(net.layers)))
    assert (found.rows_per_bank, set(found.elsewhere)) == (rows, elsewhere)


def test_columns_of_one_step_wait_for_a_requantizer() -> None:
    assert conv_cycles(100, 1) == conv_cycles(100, 2) == conv_cycles(100, 1, 2)
    assert conv_cycles(100, 3) > conv_cycles(100, 2)
