# SPDX-License-Identifier: Apache-2.0
"""Copies by LOAD and SAVE against numpy's views: parts, repetitions, constants, reductions."""

import random

import numpy as np
import pytest
from network_draws import draw_inputs, run

from opendpu.compiler.backend import build
from opendpu.compiler.layers import ConvLayer, Feature, MoveLayer, Reduction, Window
from opendpu.compiler.layers.cost import LATENCY, transfer_cycles
from opendpu.compiler.network import Alias, Network
from opendpu_arch.target import Target


def part(holder: Feature, pick: random.Random, name: str, size: tuple | None = None, steps=None):
    """Return a random part of a feature map, or one of ``size``, and numpy's index of it."""
    index = []
    for axis, whole in enumerate((holder.height, holder.width, holder.channels)):
        step = (steps or (pick.randint(1, 3), pick.randint(1, 3), 1))[axis]
        count = size[axis] if size else pick.randint(1, -(-whole // step))
        start = pick.randrange(whole - (count - 1) * step)
        index.append((start, step, count))
    (row, down, height), (column, across, width), (channel, _, channels) = index
    pixel, line = holder.channels, holder.width * holder.channels
    alias = Alias(
        holder=holder.name, offset=row * line + column * pixel + channel,
        pixel_bytes=across * pixel, row_bytes=down * line,
    )  # fmt: skip
    feature = Feature(name=name, height=height, width=width, channels=channels)
    return alias, feature, tuple(slice(a, a + (n - 1) * s + 1, s) for a, s, n in index)


def repeated(values: np.ndarray, rows: int, columns: int) -> np.ndarray:
    return values.repeat(rows, axis=0).repeat(columns, axis=1)


@pytest.mark.parametrize("target", ["B512", "B4096"])
@pytest.mark.parametrize("seed", range(30))
def test_a_part_becomes_a_part_of_a_constant(seed: int, target: str) -> None:
    pick = random.Random(seed)
    x = Feature(name="x", height=pick.randint(1, 12), width=pick.choice([1, 3, 20, 1100]),
                channels=pick.choice([1, 3, 8, 16, 21, 64]))  # fmt: skip
    from_x, source, index = part(x, pick, "source")
    rows, columns = pick.choice([(1, 1), (1, 1), (2, 2), (3, 1), (1, 4)])
    size = (source.height * rows, source.width * columns, source.channels)
    y = Feature(name="y", height=size[0] * 2 + 1, width=size[1] * 2, channels=size[2] + 3)
    steps = (pick.choice([1, 2]), pick.choice([1, 2]), 1)
    to_y, result, place = part(y, pick, "result", size, steps)
    network = Network(
        features={f.name: f for f in (x, y, source, result)},
        layers=(
            MoveLayer(name="fill", source=None, output="y", value=-7),
            MoveLayer(name="move", source="source", output="result", repeat_h=rows,
                      repeat_w=columns),
        ),
        inputs=("x",), outputs=("y",), aliases={"source": from_x, "result": to_y},
    )  # fmt: skip
    inputs = draw_inputs(network, seed)
    wanted = np.full((y.height, y.width, y.channels), -7, np.int8)
    wanted[place] = repeated(inputs["x"][index], rows, columns)
    chosen = Target.from_name(target)
    found = run(build(network, chosen), chosen, inputs, check=True)["y"]
    np.testing.assert_array_equal(found, wanted, f"seed {seed}")


@pytest.mark.parametrize("seed", range(10))
def test_from_the_banks(seed: int) -> None:
    """A result that is on chip is saved from there, unless repeated pixels cost more so."""
    pick = random.Random(seed)
    target = Target.from_name("B512")
    height, width, channels = pick.randint(1, 9), pick.randint(1, 9), pick.choice([3, 8, 20])
    rows, columns = pick.randint(1, 3), pick.randint(1, 3)
    x = Feature(name="x", height=height, width=width, channels=channels)
    made = Feature(name="made", height=height, width=width, channels=channels)
    y = Feature(name="y", height=height * rows, width=width * columns, channels=channels)
    one = np.eye(channels, dtype=np.int8).reshape(channels, 1, 1, channels)
    network = Network(
        features={f.name: f for f in (x, made, y)},
        layers=(
            ConvLayer(name="conv", source="x", output="made", window=Window(), weights=one,
                      bias=np.zeros(channels, np.int8), shift_cut=0, shift_bias=0),
            MoveLayer(name="move", source="made", output="y", repeat_h=rows, repeat_w=columns),
        ),
        inputs=("x",), outputs=("y",),
    )  # fmt: skip
    program = build(network, target)
    apart = network.layers[1].apart_cycles(made, target)
    load = LATENCY + height * transfer_cycles(width, channels, channels, target.channel_parallel)
    assert ("made" in program.plan.memory) == (apart > load)
    inputs = draw_inputs(network, seed)
    found = run(program, target, inputs, check=True)["y"]
    np.testing.assert_array_equal(found, repeated(inputs["x"], rows, columns))


@pytest.mark.parametrize("reduction", Reduction)
@pytest.mark.parametrize("channels", [1, 5, 100, 4096])
def test_reductions_of_channels(reduction: Reduction, channels: int) -> None:
    x = Feature(name="x", height=3, width=7, channels=channels)
    y = Feature(name="y", height=3, width=7, channels=1)
    network = Network(
        features={"x": x, "y": y}, inputs=("x",), outputs=("y",),
        layers=(MoveLayer(name="move", source="x", output="y", reduction=reduction),),
    )  # fmt: skip
    target = Target.from_name("B4096")
    inputs = draw_inputs(network, channels)
    inputs["x"][0] = np.sort(inputs["x"][0])[:, ::-1]  # ties at the front
    found = run(build(network, target), target, inputs, check=True)["y"]
    if reduction is Reduction.VALUE:
        np.testing.assert_array_equal(found, inputs["x"].max(axis=2, keepdims=True))
    else:
        wanted = inputs["x"].argmax(axis=2) % 256
        np.testing.assert_array_equal(found[..., 0].view(np.uint8), wanted)
