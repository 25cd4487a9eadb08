# SPDX-License-Identifier: Apache-2.0
"""Random networks: compiled, run on the functional simulator, compared with whole-array numpy."""

import dataclasses

import numpy as np
import pytest
from network_draws import check, draw_network

from opendpu.compiler import build as build_module
from opendpu.compiler.plan import ConvLayer, Feature, Network, Window
from opendpu.compiler.tile import NoRoomError
from opendpu_arch.target import Target

TARGETS = ("B64", "B144", "B512", "B1024", "B1152", "B3136", "B4096")
DEPTHS = (2048, 512, 256, 128)


def target_of(name: str, depth: int = 2048) -> Target:
    return dataclasses.replace(Target.from_name(name), bank_depth=depth)


def check_seeds(rng: np.random.Generator, name: str, depth: int, count: int) -> None:
    target = target_of(name, depth)
    done = 0
    for _ in range(3 * count):
        seed = int(rng.integers(1 << 30))
        try:
            check(draw_network(seed), target, seed, check=True, schedule_seed=seed)
        except NoRoomError:
            continue  # a kernel's weights alone are more than so small a bank holds
        done += 1
        if done == count:
            return
    pytest.fail(f"only {done} of {count} networks fit {name} with {depth} words a bank")


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("name", TARGETS)
def test_random_networks(rng: np.random.Generator, name: str, depth: int) -> None:
    check_seeds(rng, name, depth, 4)


@pytest.mark.slow
@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("name", TARGETS)
def test_many_random_networks(rng: np.random.Generator, name: str, depth: int) -> None:
    check_seeds(rng, name, depth, 100)


@pytest.mark.parametrize("name", TARGETS)
def test_nothing_on_chip(
    rng: np.random.Generator, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every feature map through DDR: the way that always works."""
    monkeypatch.setattr(build_module, "allocate_banks", lambda network, target, spilled: {})
    target = target_of(name, 512)
    for _ in range(4):
        seed = int(rng.integers(1 << 30))
        program = check(draw_network(seed, 3), target, seed, check=True, schedule_seed=seed)
        assert not any(p.output.whole for p in program.plan.layers)


def conv_network(
    height: int, width: int, inputs: int, outputs: int, kernel: int, stride: int = 1
) -> Network:
    random_bytes = np.random.default_rng(7)
    pad = kernel // 2
    rows = (height + 2 * pad - kernel) // stride + 1
    columns = (width + 2 * pad - kernel) // stride + 1
    layer = ConvLayer(
        name="conv", source="x", output="y",
        window=Window(
            kernel_h=kernel, kernel_w=kernel, stride_h=stride, stride_w=stride,
            pad_top=pad, pad_left=pad,
        ),
        weights=random_bytes.integers(-128, 128, (outputs, kernel, kernel, inputs), np.int8),
        bias=random_bytes.integers(-128, 128, outputs, np.int8), shift_cut=11, shift_bias=5,
    )  # fmt: skip
    features = {
        "x": Feature(name="x", height=height, width=width, channels=inputs),
        "y": Feature(name="y", height=rows, width=columns, channels=outputs),
    }
    return Network(features=features, layers=(layer,), inputs=("x",), outputs=("y",))


@pytest.mark.parametrize(
    ("shape", "name", "cut"),
    [
        ((60, 50, 32, 24, 3), "B512", "rows"),
        ((12, 300, 64, 16, 3), "B512", "columns"),
        ((7, 7, 512, 96, 3), "B1152", "weights"),
        ((30, 30, 64, 256, 3, 2), "B1024", "weights"),
    ],
)
def test_layers_larger_than_the_banks(shape: tuple[int, ...], name: str, cut: str) -> None:
    """Each is too large in one way: rows, columns or weights."""
    target = target_of(name)
    network = conv_network(*shape)
    program = check(network, target, 1, check=True)
    (placed,) = program.plan.layers
    out = network.features["y"]
    source = network.features["x"]
    words = source.height * source.width * -(-source.channels // target.channel_parallel)
    if cut == "rows":
        assert words > target.bank_depth * target.pixel_parallel
        assert placed.sources[0].words < words
    elif cut == "columns":
        assert placed.nest.columns < out.width
    else:
        assert placed.nest.groups < -(-out.channels // target.output_channel_parallel)


def test_a_layer_that_cannot_fit_says_so() -> None:
    network = conv_network(5, 5, 64, 8, 5)
    with pytest.raises(NoRoomError, match=r"layer conv does not fit the image banks: 2 groups of "):
        build_module.build(network, target_of("B64", 64))


def test_small_networks_stay_on_chip() -> None:
    """Only the input is loaded and only the output is saved."""
    seed = next(s for s in range(100) if len(draw_network(s).layers) == 5)
    network = draw_network(seed)
    program = build_module.build(network, target_of("B4096"))
    assert set(program.plan.memory) == {*network.inputs, *network.outputs}
