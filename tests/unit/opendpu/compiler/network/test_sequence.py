# SPDX-License-Identifier: Apache-2.0
"""The order of layers: depth first, the longest branch of a join first."""

import numpy as np
from network_draws import draw_network

from opendpu.compiler.layers import ConvLayer, EltwiseLayer, Feature, Layer, Window
from opendpu.compiler.network import Alias, Network
from opendpu.compiler.network.sequence import sequence
from opendpu_arch.target import Target

TARGET = Target.from_name("B512")


def conv(name: str, source: str) -> ConvLayer:
    return ConvLayer(
        name=name, source=source, output=name, window=Window(),
        weights=np.zeros((8, 1, 1, 8), np.int8), bias=np.zeros(8, np.int8), shift_cut=0,
        shift_bias=0,
    )  # fmt: skip


def network_of(layers: list[Layer], aliases: dict[str, Alias] | None = None) -> Network:
    names = {"x", *(name for x in layers for name in (*x.operands, x.output))}
    features = {n: Feature(name=n, height=4, width=4, channels=8) for n in sorted(names)}
    return Network(
        features=features, layers=tuple(layers), inputs=("x",), outputs=(layers[-1].output,),
        aliases=aliases or {},
    )  # fmt: skip


def names_of(network: Network) -> list[str]:
    return [layer.name for layer in network.layers]


def test_a_short_cut_comes_right_before_the_join() -> None:
    total = EltwiseLayer(
        name="sum", sources=("c", "short"), output="sum", shift_read=(0, 0), shift_write=0
    )
    layers = [conv("short", "x"), conv("a", "x"), conv("b", "a"), conv("c", "b"), total]
    assert names_of(sequence(network_of(layers), TARGET)) == ["a", "b", "c", "short", "sum"]


def test_parts_of_one_feature_map_stay_before_its_readers() -> None:
    aliases = {
        name: Alias(holder="both", offset=8 * n, pixel_bytes=16, row_bytes=64)
        for n, name in enumerate("ab")
    }
    layers = [conv("a", "x"), conv("b", "x"), conv("c", "both"), conv("d", "c")]
    assert names_of(sequence(network_of(layers, aliases), TARGET))[2:] == ["c", "d"]


def test_every_layer_stays_behind_what_it_reads(rng: np.random.Generator) -> None:
    for _ in range(50):
        network = draw_network(int(rng.integers(1 << 30)), 9)
        found = sequence(network, TARGET)
        assert sorted(names_of(found)) == sorted(names_of(network))
        made = set(network.inputs)
        for layer in found.layers:
            assert made.issuperset(layer.operands)
            made.add(layer.output)
