# SPDX-License-Identifier: Apache-2.0
"""Cascades: stripes of several layers in turn, between circular buffers of rows."""

import dataclasses

import numpy as np
from network_draws import Draw, check

from opendpu.compiler.layers import AluLayer, BroadcastLayer, ConvLayer, Window
from opendpu.compiler.network import LayerRange, Network
from opendpu.compiler.planner.cascade.list_schedule import (
    NEVER,
    SAMPLE,
    TALL,
    estimate,
    list_schedule,
)
from opendpu.compiler.planner.cascade.stage import Buffer, Need, Stage, Stripe
from opendpu.compiler.planner.choose_cascades import choose_cascades
from opendpu.compiler.planner.proposal import Restrictions
from opendpu.compiler.planner.revise import unrestricted
from opendpu_arch.isa import AluMode, Conv, Engine
from opendpu_arch.target import Target


def separable(size: int, channels: int, wide: int, stride: int = 1) -> Network:
    """Wide by 1x1, depthwise 3x3, narrow by 1x1: maps in between that are larger than the banks."""
    draw = Draw(11)
    names = [draw.feature(size, size, channels)]
    small = -(-size // stride)
    one, three = Window(), Window(kernel_h=3, kernel_w=3, stride_h=stride, stride_w=stride,
                                  pad_top=1, pad_left=1)  # fmt: skip
    for side, outputs, window in ((size, wide, one), (small, wide, three), (small, channels, one)):
        inputs = draw.features[names[-1]].channels
        names.append(draw.feature(side, side, outputs))
        shared = {
            "name": f"layer_{names[-1]}", "source": names[-2], "output": names[-1],
            "window": window, "bias": draw.bytes(outputs), "shift_cut": 8, "shift_bias": 4,
        }  # fmt: skip
        if window is three:
            draw.layers.append(
                AluLayer(mode=AluMode.DWCV, weights=draw.bytes(3, 3, outputs), **shared)
            )
        else:
            draw.layers.append(ConvLayer(weights=draw.bytes(outputs, 1, 1, inputs), **shared))
    return Network(
        features=draw.features, layers=tuple(draw.layers), inputs=(names[0],), outputs=(names[-1],)
    )


def test_maps_inside_a_cascade_never_reach_ddr() -> None:
    program = check(separable(64, 16, 96), Target.from_name("B1024"), 1, check=True)
    (cascade,) = program.plan.cascades
    assert cascade.layers == LayerRange(0, 2)
    assert set(program.plan.memory) == {"f0", "f3"}


def test_stripes_of_engines_alternate() -> None:
    """CONV makes the first rows of the last layer before the last rows of the first one."""
    program = check(separable(64, 16, 96), Target.from_name("B1024"), 1, check=True)
    (cascade,) = program.plan.cascades
    numbers = [number for number, _, _ in cascade.issue_order]
    assert numbers.index(2) < len(numbers) - 1 - numbers[::-1].index(0)


def test_columns_are_cut_where_rows_are_too_long() -> None:
    target = dataclasses.replace(Target.from_name("B1024"), bank_depth=512)
    program = check(separable(60, 16, 48, 2), target, 1, check=True, schedule_seed=3)
    cascades = [c for c in program.plan.cascades if len(c.tiles) > 1]
    assert cascades
    for cascade in cascades:
        last = program.plan.layers[cascade.layers.last].layer.output
        columns = [tile[last] for tile in cascade.tiles]
        assert sum(many for _, many in columns) == program.plan.network.features[last].width


def gated(size: int, channels: int, wide: int) -> Network:
    """Wide by 1x1, a gate of one pixel added to every place, narrow by 1x1."""
    draw = Draw(12)
    start, pixel = draw.feature(size, size, channels), draw.feature(1, 1, channels)

    def conv(source: str, side: int, outputs: int) -> str:
        inputs, output = draw.features[source].channels, draw.feature(side, side, outputs)
        draw.layers.append(
            ConvLayer(
                name=f"layer_{output}", source=source, output=output, window=Window(),
                weights=draw.bytes(outputs, 1, 1, inputs), bias=draw.bytes(outputs),
                shift_cut=8, shift_bias=4,
            )
        )  # fmt: skip
        return output

    gate = conv(pixel, 1, wide)
    made = conv(start, size, wide)
    joined = draw.feature(size, size, wide)
    draw.layers.append(
        BroadcastLayer(
            name="add", sources=(made, gate), output=joined, shift_read=(0, 0), shift_write=17
        )
    )
    last = conv(joined, size, channels)
    return Network(
        features=draw.features, layers=tuple(draw.layers), inputs=(start, pixel), outputs=(last,)
    )


def test_a_gate_is_computed_once_for_all_tiles_of_columns() -> None:
    target = dataclasses.replace(Target.from_name("B1024"), bank_depth=512)
    program = check(gated(60, 16, 96), target, 1, check=True, schedule_seed=3)
    (cascade,) = (c for c in program.plan.cascades if 0 in c.layers.numbers)
    assert len(cascade.tiles) > 1
    gate = program.plan.layers[0].layer.name
    made = [
        i for i, layer in zip(program.schedule.instructions, program.schedule.layers, strict=True)
        if layer == gate and isinstance(i, Conv)
    ]  # fmt: skip
    assert len(made) == 96 // target.output_channel_parallel


def test_cascades_that_were_ruled_out_are_not_chosen() -> None:
    network, target = separable(64, 16, 96), Target.from_name("B1024")
    every = frozenset(LayerRange(a, b) for a in range(3) for b in range(a + 1, 3))
    first = unrestricted(network, target)
    assert choose_cascades(first, target).cascades
    revised = dataclasses.replace(first, restrictions=Restrictions(apart=every))
    assert not choose_cascades(revised, target).cascades


def test_memory_of_one_cascade_is_not_that_of_its_inputs(rng: np.random.Generator) -> None:
    """All layers of a cascade run at once, so that nothing may take the place of what one reads."""
    draw = Draw(int(rng.integers(1 << 30)))
    names = [draw.feature(40, 40, 24)]
    for _ in range(6):
        names.append(draw.block(names[-1]))
    network = Network(
        features=draw.features, layers=tuple(draw.layers), inputs=(names[0],), outputs=(names[-1],)
    )
    target = dataclasses.replace(Target.from_name("B512"), bank_depth=256)
    check(network, target, 2, check=True, schedule_seed=7)


def line(height: int, kernel: int) -> tuple[list[Stage], list[Buffer]]:
    """Two stages of eight rows, the second with a window of ``kernel`` rows."""
    buffers = [
        Buffer(name=n, height=height, stride=1, row_words=1, group_rows=8, resident=n == "x")
        for n in "xyz"
    ]
    stages = []
    for number in range(2):
        reach = kernel // 2 if number else 0
        stripes = tuple(
            Stripe(
                row=row, rows=8, cycles=10,
                needs=(Need(number, max(0, row - reach), min(height, row + 8 + reach)),),
            )
            for row in range(0, height, 8)
        )  # fmt: skip
        engine = Engine.MISC if number else Engine.CONV
        stages.append(Stage(number=number, engine=engine, stripes=stripes, output=number + 1))
    return stages, buffers


def test_order_overlaps_engines() -> None:
    stages, buffers = line(64, 3)
    found = list_schedule(stages, buffers, [2, 4, 2])
    assert found.blocked is None and len(found.stripes) == 16
    assert found.cycles < 2 * 8 * 10


def test_order_says_which_buffer_is_too_small() -> None:
    stages, buffers = line(64, 3)
    found = list_schedule(stages, buffers, [1, 1, 1])
    assert (found.blocked, found.cycles) == (1, NEVER)


def test_an_estimate_looks_at_few_stripes_of_tall_maps_only() -> None:
    for kernel, capacities in ((1, [1, 1, 1]), (3, [2, 4, 2]), (9, [1, 3, 1])):
        short, tall = line(8 * TALL, kernel), line(8 * 5000, kernel)
        assert estimate(*short, capacities) == list_schedule(*short, capacities)
        whole, found = list_schedule(*tall, capacities), estimate(*tall, capacities)
        assert whole.whole and not found.whole
        assert len(found.stripes) < 3 * SAMPLE
        assert found.stripes == whole.stripes[: len(found.stripes)]
        assert abs(found.cycles - whole.cycles) < 0.01 * whole.cycles


def test_an_estimate_says_what_is_too_small() -> None:
    tall = line(8 * 5000, 3)
    assert estimate(*tall, [1, 1, 1]).blocked == 1


def test_order_never_overwrites_rows_in_use(rng: np.random.Generator) -> None:
    for kernel in (1, 3, 5, 9):
        stages, buffers = line(48, kernel)
        capacities = [1, int(rng.integers(2, 6)), 1]
        found = list_schedule(stages, buffers, capacities)
        if found.blocked is not None:
            continue
        done = [0, 0]
        for stage, stripe in found.stripes:
            rows = stages[stage].stripes[stripe]
            if stage == 0:
                oldest = stages[1].stripes[done[1]].needs[0].low if done[1] < 6 else 48
                assert rows.row + 8 - capacities[1] * 8 <= oldest
            else:
                assert rows.needs[0].high <= 8 * done[0]
            done[stage] += 1


def test_the_misc_engine_writes_where_conv_does_not() -> None:
    program = check(separable(64, 16, 96), Target.from_name("B1024"), 1, check=True)
    wide, depthwise, _ = program.plan.layers
    assert wide.output.bank_group != depthwise.output.bank_group
