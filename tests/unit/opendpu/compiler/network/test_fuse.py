# SPDX-License-Identifier: Apache-2.0
"""Additions behind convolutions: on chip, in place where nothing needs the operand any more."""

import dataclasses

import pytest
from network_draws import Draw, check, replace_pass

from opendpu.compiler import backend
from opendpu.compiler.layers import ConvLayer, EltwiseLayer, Window
from opendpu.compiler.network import Network
from opendpu.compiler.network.fuse import fuse
from opendpu.compiler.planner.proposal import Proposal, Revision
from opendpu.compiler.planner.revise import unrestricted
from opendpu_arch.isa import Conv, Elew, Engine
from opendpu_arch.target import Target

TARGET = Target.from_name("B1024")


def no_cascades(value: Network | Revision, target: Target) -> Proposal:
    revision = value if isinstance(value, Revision) else unrestricted(value, target)
    return Proposal(revision=revision, cascades=())


def residual(size: int, channels: int, inside: int) -> Network:
    """A convolution in front of a block: two convolutions and the addition of the block's input."""
    draw = Draw(3)
    names = [draw.feature(size, size, 8)]
    for outputs, kernel in ((channels, 1), (inside, 3), (channels, 1)):
        source = draw.features[names[-1]]
        names.append(draw.feature(size, size, outputs))
        draw.layers.append(
            ConvLayer(
                name=f"conv_{names[-1]}", source=names[-2], output=names[-1],
                window=Window(
                    kernel_h=kernel, kernel_w=kernel, pad_top=kernel // 2, pad_left=kernel // 2
                ),
                weights=draw.bytes(outputs, kernel, kernel, source.channels),
                bias=draw.bytes(outputs), shift_cut=9, shift_bias=4,
            )
        )  # fmt: skip
    names.append(draw.feature(size, size, channels))
    draw.layers.append(
        EltwiseLayer(
            name="sum", sources=(names[3], names[1]), output=names[4],
            shift_read=(0, 1), shift_write=17, relu=True,
        )
    )  # fmt: skip
    names.append(draw.conv(names[4]) or "")
    return Network(
        features=draw.features, layers=tuple(draw.layers), inputs=(names[0],), outputs=(names[-1],)
    )


def test_the_last_convolution_takes_the_addition() -> None:
    network = fuse(residual(10, 32, 16), TARGET)
    assert not any(isinstance(layer, EltwiseLayer) for layer in network.layers)
    host = network.layers[2]
    assert isinstance(host, ConvLayer) and host.epilogue is not None
    assert (host.epilogue.tile, host.epilogue.others, host.output) == ("f3", ("f1",), "f4")


def test_a_result_that_is_needed_elsewhere_is_not_fused() -> None:
    network = residual(10, 32, 16)
    network = dataclasses.replace(network, outputs=(*network.outputs, "f3"))
    assert sum(isinstance(layer, EltwiseLayer) for layer in fuse(network, TARGET).layers) == 1


def test_in_place_on_chip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "BACKEND_PASSES", replace_pass("cascade", no_cascades))
    program = check(residual(10, 32, 16), Target.from_name("B1024"), 1, check=True)
    placed = program.plan.layers[2]
    assert placed.output.whole and placed.output == placed.sources[1] != placed.tile
    assert "f1" not in program.plan.memory


def test_through_ddr_where_nothing_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "BACKEND_PASSES", replace_pass("cascade", no_cascades))
    target = dataclasses.replace(Target.from_name("B1024"), bank_depth=128)
    program = check(residual(40, 48, 24), target, 1, check=True, schedule_seed=5)
    placed = program.plan.layers[2]
    assert not placed.output.whole and placed.output == placed.tile


def test_the_addition_runs_beside_the_next_convolution() -> None:
    """The first ELEW waits for the convolutions of its tile, not for those of the layer."""
    program = check(residual(32, 64, 32), Target.from_name("B1024"), 1, check=True)
    engines = [i for i in program.schedule.instructions if isinstance(i, (Conv, Elew))]
    first = next(n for n, i in enumerate(engines) if isinstance(i, Elew))
    assert engines[first].dpdon & (1 << Engine.CONV)
    assert any(isinstance(i, Conv) for i in engines[first:])
