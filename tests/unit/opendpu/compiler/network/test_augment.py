# SPDX-License-Identifier: Apache-2.0
"""Kernel columns folded into channels."""

import dataclasses

import numpy as np
import pytest
from network_draws import Draw, check

from opendpu.compiler.backend import build
from opendpu.compiler.layers import ConvLayer, Window
from opendpu.compiler.network import Network
from opendpu.compiler.network.augment import augment
from opendpu_arch.isa import Conv, ConvInit, Load
from opendpu_arch.target import Target

B512 = Target.from_name("B512")


def first_layer(
    size: tuple[int, int, int], kernel: tuple[int, int], stride: int, pad: tuple[int, int]
) -> Network:
    """Return a convolution of an input; ``pad`` is left and right, and top and bottom too."""
    draw = Draw(1)
    height, width, channels = size
    source = draw.feature(*size)
    rows = (height + sum(pad) - kernel[0]) // stride + 1
    columns = (width + sum(pad) - kernel[1]) // stride + 1
    output = draw.feature(rows, columns, 12)
    window = Window(
        kernel_h=kernel[0], kernel_w=kernel[1], stride_h=stride, stride_w=stride,
        pad_top=pad[0], pad_left=pad[0],
    )  # fmt: skip
    layer = ConvLayer(
        name="conv", source=source, output=output, window=window,
        weights=draw.bytes(12, *kernel, channels), bias=draw.bytes(12), shift_cut=9, shift_bias=3,
    )  # fmt: skip
    return Network(features=draw.features, layers=(layer,), inputs=(source,), outputs=(output,))


SHAPES = {
    "rgb": ((20, 30, 3), (3, 3), 2, (0, 1)),
    "padded": ((9, 9, 3), (3, 3), 1, (1, 1)),
    "one channel": ((25, 10, 1), (10, 4), 2, (4, 5)),
    "wide kernel": ((12, 40, 1), (11, 11), 3, (5, 5)),
    "stride of the kernel": ((12, 12, 2), (4, 4), 4, (0, 0)),
    "a word more": ((20, 32, 3), (7, 7), 2, (3, 3)),
    "some of the columns": ((12, 24, 8), (9, 9), 1, (3, 3)),
    "some, every second": ((13, 26, 5), (14, 14), 2, (2, 2)),
    "stride above the kernel": ((9, 9, 3), (2, 2), 3, (0, 0)),
    "narrow": ((6, 3, 3), (3, 3), 1, (1, 1)),
}


@pytest.mark.parametrize("name", ["B64", "B512", "B1152", "B4096"])
@pytest.mark.parametrize("shape", SHAPES)
def test_results_stay(shape: str, name: str) -> None:
    check(first_layer(*SHAPES[shape]), Target.from_name(name), 1, check=True, schedule_seed=1)


def test_columns_in_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each tile has its own share of the padding."""
    target = dataclasses.replace(B512, bank_depth=64)
    program = check(first_layer((40, 90, 3), (3, 3), 1, (1, 1)), target, 1, check=True)
    (placed,) = program.plan.layers
    assert placed.nest.columns < 90
    loads = [i for i in program.schedule.instructions if isinstance(i, Load) and i.reg_id == 2]
    assert {i.pad_start for i in loads} == {0, 3}
    assert len({i.pad_end for i in loads}) == 2


def test_instructions_of_a_folded_layer() -> None:
    program = build(first_layer(*SHAPES["padded"]), B512)
    instructions = program.schedule.instructions
    init = next(i for i in instructions if isinstance(i, ConvInit))
    conv = next(i for i in instructions if isinstance(i, Conv))
    load = next(i for i in instructions if isinstance(i, Load) and i.reg_id == 2)
    assert (init.kernel_h, init.kernel_w, init.stride_w) == (3, 1, 1)
    assert (conv.channel_group, conv.channel_offset, conv.pad_left) == (2, 16 - 9, 0)
    last = [i for i in instructions if isinstance(i, Load) and i.reg_id == 2][-1]
    assert (load.channel, load.jump_read) == (9, 3)
    assert (load.pad_start, last.pad_idx, last.pad_end) == (3, 1, 7 + 3)
    assert load.ddr_addr == program.plan.memory["f0"].address - 3


@pytest.mark.parametrize(
    ("why", "shape"),
    [
        ("more beside a row than LOAD zeroes", ((12, 12, 5), (15, 15), 1, (7, 7))),
        ("low, and faster with rows and columns exchanged", ((13, 32, 6), (9, 9), 1, (0, 0))),
        ("no step is saved", ((9, 9, 8), (3, 2), 1, (0, 0))),
        ("one column already", ((9, 9, 3), (3, 1), 1, (0, 0))),
    ],
)
def test_layers_that_stay_as_they_are(why: str, shape: tuple) -> None:
    network = first_layer(*shape)
    assert augment(network, B512) == network, why


@pytest.mark.parametrize(
    ("name", "shape", "folded"),
    [
        ("B512", ((64, 64, 3), (7, 7), 2, (3, 3)), (7, 1, 1)),
        ("B64", ((64, 64, 3), (5, 5), 1, (2, 2)), (5, 1, 1)),
        ("B4096", ((64, 64, 3), (7, 7), 2, (3, 3)), (7, 1, 1)),
        ("B4096", ((64, 64, 8), (9, 9), 1, (3, 3)), (8, 2, 1)),
        ("B4096", ((64, 64, 5), (14, 14), 2, (2, 2)), (3, 7, 1)),
        ("B4096", ((64, 64, 3), (3, 3), 4, (1, 1)), (4, 1, 1)),
    ],
)
def test_columns_in_a_pixel(name: str, shape: tuple, folded: tuple[int, int, int]) -> None:
    """Columns of a pixel, kernel columns that are left, and their stride."""
    network, target = first_layer(*shape), Target.from_name(name)
    after = augment(network, target)
    (before,), (layer,) = network.layers, after.layers
    columns = after.features[layer.source].channels // shape[0][2]
    assert (columns, layer.window.kernel_w, layer.window.stride_w) == folded
    assert layer.column_cycles(after.features, target) < before.column_cycles(
        network.features, target
    )


def test_target_without_it() -> None:
    network = first_layer(*SHAPES["padded"])
    assert augment(network, dataclasses.replace(B512, channel_augmentation=False)) == network


def test_every_weight_is_where_its_column_is() -> None:
    network = first_layer((64, 64, 5), (14, 14), 2, (2, 2))
    (before,), (after,) = network.layers, augment(network, Target.from_name("B4096")).layers
    pixels = after.weights.reshape(12, 14, 7, 3, 5)
    for column in range(14):
        tap = min(column // 2, 6)
        np.testing.assert_array_equal(
            pixels[:, :, tap, column - 2 * tap], before.weights[:, :, column]
        )
    assert np.count_nonzero(after.weights) == np.count_nonzero(before.weights)


def test_weights_keep_their_bytes() -> None:
    network = first_layer(*SHAPES["rgb"])
    (before,), (after,) = network.layers, augment(network, B512).layers
    assert after.weights.shape == (12, 3, 1, 9)
    np.testing.assert_array_equal(after.weights.reshape(-1), before.weights.reshape(-1))
