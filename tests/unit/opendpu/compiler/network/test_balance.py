# SPDX-License-Identifier: Apache-2.0
"""Depthwise convolutions on the array: where they go there, and the same bytes from there."""

import dataclasses
from collections.abc import Sequence

import numpy as np
import pytest
from network_draws import Draw, check, draw_network, replace_pass

from opendpu.compiler import backend
from opendpu.compiler.layers import AluLayer, ConvLayer, Layer, SharedDepthwiseLayer, Window
from opendpu.compiler.network import Alias, Network
from opendpu.compiler.network.balance import balance, on_array
from opendpu_arch.isa import AluMode
from opendpu_arch.target import Target

TARGET = Target.from_name("B4096")


def depthwise(draw: Draw, source: str, kernel: int) -> None:
    """Add one that keeps the size."""
    feature = draw.features[source]
    output = draw.feature(feature.height, feature.width, feature.channels)
    draw.layers.append(
        AluLayer(
            name=f"deep_{output}", source=source, output=output, mode=AluMode.DWCV,
            window=Window(
                kernel_h=kernel, kernel_w=kernel, pad_top=kernel // 2, pad_left=kernel // 2
            ),
            weights=draw.bytes(kernel, kernel, feature.channels),
            bias=draw.bytes(feature.channels), shift_cut=8, shift_bias=3,
        )
    )  # fmt: skip


def pointwise(draw: Draw, source: str, channels: int) -> None:
    """Add a 1x1 convolution."""
    feature = draw.features[source]
    output = draw.feature(feature.height, feature.width, channels)
    draw.layers.append(
        ConvLayer(
            name=f"conv_{output}", source=source, output=output, window=Window(),
            weights=draw.bytes(channels, 1, 1, feature.channels), bias=draw.bytes(channels),
            shift_cut=9, shift_bias=3,
        )
    )  # fmt: skip


def chain(channels: int, kernels: Sequence[int]) -> Network:
    """Depthwise convolutions with these kernels, and 1x1 convolutions for zeros."""
    draw = Draw(7)
    name = draw.feature(32, 32, channels)
    for kernel in kernels:
        if kernel:
            depthwise(draw, name, kernel)
        else:
            pointwise(draw, name, channels)
        name = draw.layers[-1].output
    return Network(
        features=draw.features, layers=tuple(draw.layers), inputs=("f0",), outputs=(name,)
    )


def moved(network: Network) -> list[int]:
    """Return the numbers of the layers that went to the array."""
    pairs = zip(network.layers, balance(network, TARGET).layers, strict=True)
    return [n for n, (before, after) in enumerate(pairs) if type(before) is not type(after)]


def test_what_the_array_does_in_half_the_steps_goes_first() -> None:
    """Of a 1x1 kernel the array makes twice as many rows at a time; 3x3 is one step there."""
    assert moved(chain(64, [3, 1, 3, 1, 3])) == [1, 3]


def test_an_array_with_enough_to_do_gets_no_more() -> None:
    assert moved(chain(256, [0, 3, 0, 1, 0, 3])) == []


def shared(network: Network, target: Target = TARGET) -> dict[int, tuple[int, int]]:
    """Return channel groups of both engines, by number of the layers that they share."""
    return {
        n: (layer.misc_groups, layer.array_groups)
        for n, layer in enumerate(balance(network, target).layers)
        if isinstance(layer, SharedDepthwiseLayer)
    }


def test_a_layer_alone_is_shared() -> None:
    """The array takes 25 steps for eight rows, the misc engine 10 for four."""
    assert shared(chain(64, [5])) == {0: (3, 1)}
    assert shared(chain(16, [5])) == {}  # there is nothing to share


def test_parts_that_go_from_ddr_to_ddr_are_shared_as_if_they_were_alone() -> None:
    network = chain(256, [0, 5, 0])
    assert shared(network) == {}  # the array has enough to do
    alias = Alias(holder="f0", offset=0, pixel_bytes=64, row_bytes=64 * 32)
    aliases = dict.fromkeys(("f1", "f2"), alias)
    assert shared(dataclasses.replace(network, aliases=aliases)) == {1: (9, 7)}


@pytest.mark.parametrize("channels", [5, 16, 40])
def test_weights_are_a_diagonal_of_each_channel_group(channels: int) -> None:
    (layer,) = chain(channels, [3]).layers
    assert isinstance(layer, AluLayer) and layer.weights is not None
    made = on_array(layer, TARGET)
    assert made is not None and made.weights.shape == (channels, 3, 3, 16)
    for channel in range(channels):
        np.testing.assert_array_equal(
            made.weights[channel, :, :, channel % 16], layer.weights[..., channel]
        )
    assert np.count_nonzero(made.weights) == np.count_nonzero(layer.weights)


def everything(network: Network, target: Target) -> Network:
    def move(layer: Layer) -> Layer:
        return on_array(layer, target) or layer

    return dataclasses.replace(network, layers=tuple(map(move, network.layers)))


@pytest.mark.parametrize("target", ["B64", "B512", "B1152", "B4096"])
@pytest.mark.parametrize("seed", range(25))
def test_the_same_bytes(seed: int, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "BACKEND_PASSES", replace_pass("balance", everything))
    check(draw_network(1000 + seed, most_layers=6), Target.from_name(target), seed, check=True)


@pytest.mark.parametrize("kernels", [[3, 1, 3, 1, 3], [5, 0, 1, 5, 0]])
@pytest.mark.parametrize("channels", [24, 64])
def test_in_a_cascade(kernels: list[int], channels: int) -> None:
    check(chain(channels, kernels), TARGET, 1, check=True)
