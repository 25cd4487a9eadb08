# SPDX-License-Identifier: Apache-2.0
"""Windows of first layers that are one pixel of what LOAD brings: where, and the same results."""

import dataclasses

import numpy as np
import pytest
from network_draws import Draw, check, replace_pass

from opendpu.compiler import backend
from opendpu.compiler.backend import build
from opendpu.compiler.layers import ConvLayer, FoldedConvLayer, Window
from opendpu.compiler.network import Network, join_windows
from opendpu.compiler.network.augment import augment
from opendpu_arch.isa import Conv, ConvInit, Load
from opendpu_arch.target import Target

TARGET = Target.from_name("B4096")


def first_layer(
    size: tuple[int, int, int], kernel: int, stride: int, pad: int, channels: int = 12
) -> Network:
    """Return a convolution of an input, and one of a pixel behind it."""
    draw = Draw(1)
    source = draw.feature(*size)
    rows, columns = ((n + 2 * pad - kernel) // stride + 1 for n in size[:2])
    first, last = draw.feature(rows, columns, channels), draw.feature(rows, columns, 9)
    draw.layers.append(
        ConvLayer(
            name="first", source=source, output=first,
            window=Window(kernel_h=kernel, kernel_w=kernel, stride_h=stride, stride_w=stride,
                          pad_top=pad, pad_left=pad),
            weights=draw.bytes(channels, kernel, kernel, size[2]), bias=draw.bytes(channels),
            shift_cut=9, shift_bias=3,
        )
    )  # fmt: skip
    draw.layers.append(
        ConvLayer(
            name="last", source=first, output=last, window=Window(),
            weights=draw.bytes(9, 1, 1, channels), bias=draw.bytes(9), shift_cut=9, shift_bias=3,
        )
    )  # fmt: skip
    return Network(
        features=draw.features, layers=tuple(draw.layers), inputs=(source,), outputs=(last,)
    )


def joined(network: Network, target: Target = TARGET) -> FoldedConvLayer | None:
    """Return the first layer behind the pass, if its windows are joined."""
    layer = join_windows.join_windows(augment(network, target), target).layers[0]
    return layer if isinstance(layer, FoldedConvLayer) else None


def test_two_windows_of_a_photograph_are_one_word() -> None:
    layer = joined(first_layer((64, 64, 3), 3, 2, 1))
    assert layer is not None
    assert (layer.pixels, layer.step, layer.weights_shape) == (2, 6, (32, 3, 1, 15))


def test_every_window_has_its_weights_where_its_bytes_are() -> None:
    layer = joined(first_layer((64, 64, 3), 3, 2, 1))
    assert layer is not None
    first, second = layer.shifted.reshape(2, 16, 3, 1, 15)
    np.testing.assert_array_equal(first[:12, ..., :9], layer.weights)
    np.testing.assert_array_equal(second[:12, ..., 6:], layer.weights)
    assert np.count_nonzero(layer.shifted) == 2 * np.count_nonzero(layer.weights)


@pytest.mark.parametrize(
    ("why", "network"),
    [
        ("two windows take two words", first_layer((64, 64, 3), 4, 2, 1)),
        ("the array takes longer", first_layer((64, 64, 3), 3, 2, 1, channels=256)),
        ("a column would be left over", first_layer((64, 62, 3), 3, 2, 1)),
    ],
)
def test_where_windows_stay_apart(why: str, network: Network) -> None:
    assert joined(network) is None, why


def test_fewer_words_are_loaded_in_fewer_cycles(monkeypatch: pytest.MonkeyPatch) -> None:
    network = first_layer((112, 112, 3), 3, 2, 1)
    together = build(network, TARGET).schedule
    monkeypatch.setattr(backend, "BACKEND_PASSES", replace_pass("join_windows", lambda n, _: n))
    apart = build(network, TARGET).schedule
    words = [
        sum(i.length for i in s.instructions if isinstance(i, Load) and i.reg_id == 2)
        for s in (together, apart)
    ]
    assert 2 * words[0] == words[1]
    assert together.cycles < 0.8 * apart.cycles


def test_an_instruction_makes_every_second_column() -> None:
    instructions = build(first_layer((64, 64, 3), 3, 2, 1), TARGET).schedule.instructions
    init = next(i for i in instructions if isinstance(i, ConvInit))
    convs = [i for i in instructions if isinstance(i, Conv)][:2]
    assert init.jump_write == 2
    assert {i.length for i in convs} == {16}
    assert convs[1].bank_addr_out == convs[0].bank_addr_out + 1


@pytest.mark.parametrize("target", ["B64", "B512", "B1152", "B4096"])
@pytest.mark.parametrize(
    ("size", "kernel", "stride", "channels"),
    [
        ((20, 32, 3), 3, 2, 12), ((9, 16, 1), 3, 1, 40), ((25, 24, 1), 5, 2, 17),
        ((30, 96, 1), 3, 3, 8), ((11, 24, 2), 3, 1, 33),
    ],
)  # fmt: skip
def test_results(
    size: tuple[int, int, int], kernel: int, stride: int, channels: int, target: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(join_windows, "waits", lambda *_: True)
    network = first_layer(size, kernel, stride, kernel // 2, channels)
    check(network, Target.from_name(target), 1, check=True, schedule_seed=1)


def test_columns_in_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tile begins in the middle of a pixel, or ends there."""
    monkeypatch.setattr(join_windows, "waits", lambda *_: True)
    target = dataclasses.replace(Target.from_name("B512"), bank_depth=64)
    network = first_layer((40, 90, 1), 3, 1, 1)
    assert joined(network, target) is not None
    program = check(network, target, 1, check=True)
    assert program.plan.cascades or program.plan.layers[0].nest.columns < 90
