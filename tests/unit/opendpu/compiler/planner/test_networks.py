# SPDX-License-Identifier: Apache-2.0
"""Random networks: compiled, run on the functional simulator, compared with whole-array numpy."""

import dataclasses
from collections.abc import Iterator

import numpy as np
import pytest
from network_draws import Draw, check, draw_network, replace_pass

from opendpu.compiler import backend
from opendpu.compiler.layers import AluLayer, ConvLayer, Feature, Window
from opendpu.compiler.network import Network
from opendpu.compiler.planner.proposal import Proposal, Residency
from opendpu.compiler.planner.revise import BankCapacityError
from opendpu.compiler.program import Program
from opendpu_arch.isa import Alu, AluMode, Conv, Load
from opendpu_arch.target import Target

TARGETS = ("B64", "B144", "B512", "B1024", "B1152", "B3136", "B4096")
DEPTHS = (2048, 512, 256, 128)


def target_of(name: str, depth: int = 2048) -> Target:
    return dataclasses.replace(Target.from_name(name), bank_depth=depth)


def check_seeds(
    rng: np.random.Generator, name: str, depth: int, count: int, most: int | None = None
) -> Iterator[Program]:
    """Yield the programs of networks that are checked, of ``most`` layers at most if given."""
    target = target_of(name, depth)
    done = 0
    for _ in range(3 * count):
        seed = int(rng.integers(1 << 30))
        network = draw_network(seed) if most is None else draw_network(seed, most)
        try:
            program = check(network, target, seed, check=True, schedule_seed=seed)
        except BankCapacityError:
            continue  # a kernel's weights or rows alone are more than so small a bank holds
        yield program
        done += 1
        if done == count:
            return
    pytest.fail(f"only {done} of {count} networks fit {name} with {depth} words a bank")


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("name", TARGETS)
def test_random_networks(rng: np.random.Generator, name: str, depth: int) -> None:
    assert len(list(check_seeds(rng, name, depth, 4))) == 4


@pytest.mark.slow
@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("name", TARGETS)
def test_many_random_networks(rng: np.random.Generator, name: str, depth: int) -> None:
    assert len(list(check_seeds(rng, name, depth, 100))) == 100


@pytest.mark.parametrize("name", TARGETS)
def test_nothing_on_chip(
    rng: np.random.Generator, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every feature map through DDR: the way that always works."""

    def nothing(proposal: Proposal, target: Target) -> Residency:
        return Residency(proposal=proposal, regions={}, live_ranges={})

    monkeypatch.setattr(backend, "BACKEND_PASSES", replace_pass("residency", nothing))
    for program in check_seeds(rng, name, 512, 4, most=3):
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
    with pytest.raises(
        BankCapacityError, match=r"layer conv does not fit the image banks: 2 groups of "
    ):
        backend.build(network, target_of("B64", 64))


def test_readers_that_want_other_rows_in_a_bank() -> None:
    """One reader has stride 1, one stride 2: one reads from the banks, one from DDR."""
    draw = Draw(1)
    source = draw.feature(32, 32, 16)
    trunk = grow(draw, source, 32)
    near, far = grow(draw, trunk, 64), grow(draw, trunk, 64, stride=2)
    network = Network(
        features=draw.features, layers=tuple(draw.layers), inputs=(source,), outputs=(near, far)
    )
    program = check(network, target_of("B1024"), 1, check=True, schedule_seed=1)
    reads = [placed.sources[0] for placed in program.plan.layers[1:]]
    assert [(r.whole, r.stride) for r in reads] == [(True, 1), (False, 2)]
    assert trunk in program.plan.memory


def grow(draw: Draw, source: str, channels: int, stride: int = 1) -> str:
    """Add a 3x3 convolution."""
    feature = draw.features[source]
    rows, columns = (-(-n // stride) for n in (feature.height, feature.width))
    output = draw.feature(rows, columns, channels)
    window = Window(kernel_h=3, kernel_w=3, stride_h=stride, stride_w=stride, pad_top=1, pad_left=1)
    draw.layers.append(
        ConvLayer(
            name=f"conv_{output}", source=source, output=output, window=window,
            weights=draw.bytes(channels, 3, 3, feature.channels), bias=draw.bytes(channels),
            shift_cut=10, shift_bias=4,
        )
    )  # fmt: skip
    return output


def test_small_networks_stay_on_chip() -> None:
    """Only the input is loaded and only the output is saved."""
    seed = next(s for s in range(100) if len(draw_network(s).layers) == 5)
    network = draw_network(seed)
    program = backend.build(network, target_of("B4096"))
    assert set(program.plan.memory) == {*network.inputs, *network.outputs}


def test_bias_and_weight_banks_wrap_inside_a_layer() -> None:
    """Five layers of ten bias words in banks of 32 words: one lies across the end."""
    draw = Draw(1)
    name = draw.feature(3, 3, 12)
    for _ in range(5):
        source, name = name, draw.feature(3, 3, 40)
        channels = draw.features[source].channels
        draw.layers.append(
            ConvLayer(
                name=f"conv_{name}", source=source, output=name, window=Window(),
                weights=draw.bytes(40, 1, 1, channels), bias=draw.bytes(40), shift_cut=8,
                shift_bias=4,
            )
        )  # fmt: skip
        sum_of = draw.feature(3, 3, 40)
        window = Window()
        draw.layers.append(
            AluLayer(
                name=f"dw_{sum_of}", source=name, output=sum_of, window=window,
                mode=AluMode.DWCV, weights=draw.bytes(1, 1, 40), bias=draw.bytes(40), shift_cut=6,
            )
        )  # fmt: skip
        name = sum_of
    network = Network(
        features=draw.features, layers=tuple(draw.layers), inputs=("f0",), outputs=(name,)
    )
    target = target_of("B64", 32)
    program = check(network, target, 1, check=True, schedule_seed=1)
    for instruction in program.schedule.instructions:
        if isinstance(instruction, (Conv, Alu)):
            assert instruction.bank_addr_bias < target.bank_depth


@pytest.mark.parametrize(("outputs", "loads"), [(64, 8), (61, 8), (20, 8), (5, 5)])
def test_short_kernels_come_several_blocks_a_load(outputs: int, loads: int) -> None:
    """A lane's weights of all blocks are one LOAD; the last block has fewer lanes."""
    network = conv_network(6, 6, 12, outputs, 1)
    program = check(network, target_of("B512"), 1, check=True)
    base = target_of("B512").convw_base
    found = [
        i
        for i in program.schedule.instructions
        if isinstance(i, Load) and base <= i.bank_id < base + 8
    ]
    assert len(found) == loads
    assert sum(i.length for i in found) == outputs


def test_padding_counts_in_the_walk_over_a_bank() -> None:
    """15 columns of 8 words fit 128 words, 18 with their padding do not."""
    draw = Draw(1)
    source = draw.feature(2, 15, 64)
    output = draw.feature(2, 17, 17)
    window = Window(kernel_h=3, kernel_w=3, pad_top=1, pad_left=2)
    draw.layers.append(
        ConvLayer(
            name="conv", source=source, output=output, window=window,
            weights=draw.bytes(17, 3, 3, 64), bias=draw.bytes(17), shift_cut=11, shift_bias=4,
        )
    )  # fmt: skip
    network = Network(
        features=draw.features, layers=tuple(draw.layers), inputs=(source,), outputs=(output,)
    )
    program = check(network, target_of("B1024", 128), 1, check=True)
    assert program.plan.layers[0].nest.columns < 17
