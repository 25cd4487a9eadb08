# SPDX-License-Identifier: Apache-2.0
"""Ops that only move data, between convolutions: simulator against the integer reference."""

import os
import random

import numpy as np
import pytest
from graph_draws import Quantized, compile_and_check

from opendpu.compiler.kinds import cycles_alone
from opendpu.compiler.layers import MoveLayer
from opendpu.compiler.legalize import legalize
from opendpu.compiler.lower import lower
from opendpu.compiler.partition import partition
from opendpu.compiler.pipeline import compile_with_report
from opendpu_arch.target import Target

TARGETS = ["B512", "B4096"]
TARGET = Target.from_name("B512")


def between(kind: str, size: tuple, result: tuple, target: str = "B512", point: int = 4, **attrs):
    """Compile conv, the op, conv; assert that all run on the DPU as the reference says."""
    q = Quantized()
    x = q.conv(q.data(*size[:2], 5), "before", size[2], kernel=3, pad=1, point=4)
    q.op("op", kind, result, [x], **attrs)
    y = q.conv(q.fix("op", point), "after", 7, kernel=3, pad=1, point=2)
    compiled = compile_and_check(q.done(y), target)
    assert not compiled.report.on_cpu
    return compiled


def dpu(compiled):
    (found,) = (s for s in compiled.report.subgraphs if s.device == "DPU")
    return found


def cut(begin: list, end: list, strides: list) -> dict:
    return {"begin": begin, "end": end, "strides": strides}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("limits", "result"),
    [
        (cut([0, 1, 2, 3], [1, 7, 9, 19], [1, 1, 1, 1]), (6, 7, 16)),
        (cut([0, 0, 1, 0], [1, 8, 10, 20], [1, 2, 3, 1]), (4, 3, 20)),
        (cut([0, 3, 0, 0], [1, 4, 10, 20], [1, 1, 1, 5]), (1, 10, 4)),
        (cut([0, 0, 0, 1], [1, 8, 10, 20], [1, 1, 1, 2]), (8, 10, 10)),
    ],
)
def test_strided_slice(limits: dict, result: tuple, target: str) -> None:
    compiled = between("strided_slice", (8, 10, 20), result, target, **limits)
    assert "ELEW" not in dpu(compiled).instructions


def test_a_slice_that_is_an_output_and_one_of_an_input() -> None:
    q = Quantized()
    x = q.data(6, 8, 12)
    q.op("left", "strided_slice", (6, 4, 6), [x], **cut([0, 0, 0, 2], [1, 6, 4, 8], [1] * 4))
    a = q.conv(q.fix("left", 5), "a", 9, kernel=3, pad=1, point=4)
    q.op("right", "strided_slice", (3, 2, 9), [a], **cut([0, 0, 1, 0], [1, 6, 4, 9], [1, 2, 2, 1]))
    b = q.fix("right", 4)
    assert not compile_and_check(q.done(b, a)).report.on_cpu


@pytest.mark.parametrize("point", [4, 3])
def test_a_slice_of_another_position(point: int) -> None:
    limits = cut([0, 0, 2, 0], [1, 6, 8, 8], [1] * 4)
    between("strided_slice", (6, 9, 8), (6, 6, 8), point=point, **limits)


def test_a_slice_of_a_tensor_with_one_axis() -> None:
    """As of a number for the whole network: it has the batch's axis only."""
    q = Quantized()
    y = q.conv(q.data(4, 4, 5), "conv", 6, kernel=3, pad=1, point=4)
    q.op("cut", "strided_slice", (), [q.data(name="number", point=4)], **cut([0], [1], [1]))
    compile_and_check(q.done(y, q.fix("cut", 4)))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("value", [0.0, 1.5])
def test_constant_padding(target: str, value: float) -> None:
    amounts = [0, 0, 1, 2, 3, 4, 0, 0]
    between("pad", (5, 6, 11), (8, 13, 11), target, paddings=amounts, mode="CONSTANT",
            constant_values=[value] * 8)  # fmt: skip


def test_padding_of_channels() -> None:
    amounts = [0, 0, 0, 1, 0, 0, 2, 5]
    between("pad", (5, 6, 11), (6, 6, 18), paddings=amounts, mode="CONSTANT")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("mode", ["SYMMETRIC", "REFLECT"])
def test_mirrored_padding(mode: str, target: str) -> None:
    amounts = [0, 0, 3, 1, 2, 4, 0, 0]
    between("pad", (5, 6, 11), (9, 12, 11), target, paddings=amounts, mode=mode)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", ["gstiling", "reorg", "pixel-shuffle"])
@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("back", [False, True])
def test_blocks(kind: str, size: int, back: bool, target: str) -> None:
    fine, coarse = (2 * size**2, 4 * size, 5), (2 * size, 4, 5 * size**2)
    attrs = {
        "gstiling": {"stride": size, "reverse": back}, "reorg": {"scale": size, "reverse": back},
        "pixel-shuffle": {"scale": size, "upscale": back},
    }[kind]  # fmt: skip
    shapes = (coarse, fine) if back else (fine, coarse)
    compiled = between(kind, *shapes, target, **attrs)
    if kind == "pixel-shuffle" and back:  # the order of channels is in the weights before
        assert not any(op.get_name() == "op" and op.get_type() == "conv2d-fix"
                       for op in compiled.graph.get_ops())  # fmt: skip


def test_shuffled_channels_that_others_need_too() -> None:
    q = Quantized()
    a = q.conv(q.data(4, 4, 6), "a", 12, kernel=1, point=4)
    q.op("up", "pixel-shuffle", (8, 8, 3), [a], scale=2, upscale=True)
    y = q.conv(q.fix("up", 4), "y", 5, kernel=1, point=3)
    assert not compile_and_check(q.done(y, a)).report.on_cpu


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("scale", [[2.0, 2.0], [3.0, 1.0], [4.0, 8.0]])
def test_nearest(scale: list[float], target: str) -> None:
    result = (int(5 * scale[1]), int(6 * scale[0]), 9)
    between("resize", (5, 6, 9), result, target, scale=scale, mode="NEAREST")


def test_nearest_that_leaves_pixels_out() -> None:
    between("resize", (6, 9, 8), (3, 3, 8), scale=[1 / 3, 0.5], mode="NEAREST")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("scale", "half"), [(2, False), (4, False), (8, False), (2, True), (4, True)]
)
@pytest.mark.parametrize("point", [4, 6])
def test_bilinear(scale: int, half: bool, point: int, target: str) -> None:
    result = (3 * scale, 4 * scale, 9)
    between("resize", (3, 4, 9), result, target, point=point, scale=[float(scale)] * 2,
            mode="BILINEAR", half_pixel_centers=half)  # fmt: skip


def test_bilinear_with_different_scales() -> None:
    between("resize", (3, 4, 9), (6, 16, 9), scale=[4.0, 2.0], mode="BILINEAR")


@pytest.mark.parametrize(
    ("scale", "attrs"),
    [
        ([8.0, 8.0], {"mode": "BILINEAR", "half_pixel_centers": True}),
        ([3.0, 3.0], {"mode": "BILINEAR"}),
        ([2.0, 2.0], {"mode": "BILINEAR", "align_corners": True}),
        ([1.5, 1.5], {"mode": "NEAREST"}),
    ],
)
def test_other_resizes_are_for_the_cpu(scale: list[float], attrs: dict) -> None:
    q = Quantized()
    x = q.conv(q.data(4, 4, 5), "before", 6, kernel=1, point=4)
    q.op("op", "resize", (int(4 * scale[1]), int(4 * scale[0]), 6), [x], scale=scale, **attrs)
    y = q.conv(q.fix("op", 4), "after", 7, kernel=1, point=2)
    compiled = compile_and_check(q.done(y))
    assert list(compiled.report.on_cpu) == ["op"]
    assert '"scale"' in compiled.report.on_cpu["op"]


def test_exchanged_rows_and_columns() -> None:
    between("transpose", (5, 8, 12), (8, 5, 12), order=[0, 2, 1, 3])


def test_a_transpose_of_axes_of_one_is_a_reshape() -> None:
    compiled = between("transpose", (1, 1, 12), (12, 1, 1), order=[0, 3, 1, 2])
    assert "SAVE" in dpu(compiled).instructions


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("size", "order"),
    [
        ((9, 9, 13), (0, 3, 1, 2)),  # the channels are rows; 81 pixels are 27 times three
        ((9, 9, 13), (0, 2, 3, 1)),
        ((4, 20, 20), (0, 2, 3, 1)),  # few rows are channels
        ((1, 131, 12), (0, 1, 3, 2)),  # a prime number of pixels: bytes one by one
        ((16, 8, 24), (0, 3, 2, 1)),
        ((12, 9, 12), (0, 2, 3, 1)),
    ],
)
def test_the_last_axis_of_a_large_map_moves(size: tuple, order: tuple, target: str) -> None:
    q = Quantized()
    x = q.conv(q.data(*size[:2], 5), "before", size[2], kernel=1, point=4)
    q.op("op", "transpose", tuple(size[axis - 1] for axis in order[1:]), [x], order=order)
    y = q.conv(q.fix("op", 3), "after", 7, kernel=1, point=2)
    assert not compile_and_check(q.done(y, x), target).report.on_cpu


def test_a_small_map_without_a_convolution_of_its_size() -> None:
    """1024 channels in another order are a megabyte of weights: 32 thousand cycles of LOAD."""
    q = Quantized()
    x = q.data(4, 16, 16)
    q.op("op", "transpose", (16, 16, 4), [x], order=(0, 2, 3, 1))
    compiled = compile_and_check(q.done(q.fix("op", 4)))
    assert not compiled.report.on_cpu
    assert sum(part.cycles or 0 for part in compiled.report.subgraphs) < 4000


@pytest.mark.parametrize("point", [4, 3])
def test_channels_of_a_small_map_become_rows(point: int) -> None:
    between("transpose", (4, 5, 6), (6, 4, 5), point=point, order=[0, 3, 1, 2])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("split", "order"),
    [
        ((3, 2, 4, 2, 24), (0, 2, 4, 1, 3, 5)),  # pixels at the same place of patches
        ((3, 4, 2, 2, 24), (0, 1, 3, 2, 4, 5)),  # windows
        ((2, 12, 6, 8), (0, 1, 3, 2, 4)),  # heads in front of tokens
        ((6, 8, 3, 8), (0, 3, 2, 1, 4)),
        ((2, 3, 2, 2, 2, 24), (0, 5, 3, 4, 1, 2, 6)),
        ((2, 3, 8, 1, 24), (0, 3, 4, 2, 1, 5)),
    ],
)
def test_pixels_in_another_order(split: tuple, order: tuple, target: str) -> None:
    """More axes than rows and columns move; a map that others read too."""
    q = Quantized()
    x = q.conv(q.data(6, 8, 5), "before", 24, kernel=3, pad=1, point=4)
    y = q.reshape(x, "split", *split, point=4)
    q.op("op", "transpose", tuple(([1, *split])[axis] for axis in order[1:]), [y], order=order)
    y = q.reshape(q.fix("op", 4), "joined", 12, 96 // 24, 24, point=4)
    y = q.conv(y, "after", 7, kernel=3, pad=1, point=2)
    assert not compile_and_check(q.done(y, x), target).report.on_cpu


def test_pixels_in_another_order_at_the_borders() -> None:
    """Of a result, as a result, and of part of a map; with another position."""
    q = Quantized()
    x = q.conv(q.data(8, 8, 3), "before", 40, kernel=3, pad=1, point=4)
    q.op("cut", "strided_slice", (8, 8, 24), [x], **cut([0, 0, 0, 8], [1, 8, 8, 32], [1] * 4))
    y = q.reshape(q.fix("cut", 4), "split", 4, 2, 4, 2, 24, point=4)
    q.op("op", "transpose", (2, 2, 4, 4, 24), [y], order=(0, 2, 4, 1, 3, 5))
    op = q.fix("op", 3)
    y = q.reshape(op, "tokens", 4, 16, 24, point=3)
    y = q.conv(y, "after", 24, kernel=1, point=3)
    y = q.reshape(y, "apart", 2, 2, 4, 4, 24, point=3)
    q.op("back", "transpose", (4, 2, 4, 2, 24), [y], order=(0, 3, 1, 4, 2, 5))
    assert not compile_and_check(q.done(op, q.fix("back", 3), x)).report.on_cpu


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("groups", [2, 3])
@pytest.mark.parametrize("alone", [True, False])
def test_shuffled_channels(groups: int, target: str, alone: bool) -> None:
    """As ShuffleNet does it; where nothing else needs the convolution, it costs nothing."""
    q = Quantized()
    x = q.conv(q.data(5, 6, 4), "before", 12, kernel=3, pad=1, point=4)
    split = q.reshape(x, "split", 5, 6, groups, 12 // groups, point=4)
    q.op("op", "transpose", (5, 6, 12 // groups, groups), [split], order=[0, 1, 2, 4, 3])
    joined = q.reshape(q.fix("op", 4), "joined", 5, 6, 12, point=4)
    y = q.conv(joined, "after", 7, kernel=3, pad=1, point=2)
    compiled = compile_and_check(q.done(*([y] if alone else [y, x])), target)
    assert not compiled.report.on_cpu
    convolutions = [op for op in compiled.graph.get_ops() if op.get_type() == "conv2d-fix"]
    assert len(convolutions) == (2 if alone else 3)


def test_concatenation_along_columns() -> None:
    q = Quantized()
    x = q.data(4, 5, 8)
    a, b = (q.conv(x, name, 6, kernel=1, point=point) for name, point in (("a", 4), ("b", 3)))
    q.op("cat", "concat", (4, 15, 6), [a, b, a], axis=2)
    y = q.conv(q.fix("cat", 4), "y", 5, kernel=3, pad=1, point=2)
    assert not compile_and_check(q.done(y)).report.on_cpu


@pytest.mark.parametrize(
    ("kind", "shape", "attrs", "why"),
    [
        (
            "pad",
            (4, 4, 8),
            {"paddings": [0] * 6 + [1, 1], "mode": "SYMMETRIC"},
            '"mode"(SYMMETRIC)',
        ),
        ("pad", (8, 4, 6), {"paddings": [0, 0, 4, 0] + [0] * 4, "mode": "REFLECT"}, "up to 3 here"),
        ("resize", (4, 4 * 257, 6), {"scale": [257.0, 1.0], "mode": "NEAREST"}, "up to 256"),
        (
            "resize",
            (8, 8, 6),
            {"scale": [2.0, 2.0], "mode": "BILINEAR", "point": 8},
            '"shift_cut"(-2)',
        ),
        ("strided_slice", (4, 4, 6), cut([0, 3, 0, 0], [1, -5, 4, 6], [1, -1, 1, 1]), "positive"),
    ],
)
def test_limits(kind: str, shape: tuple, attrs: dict, why: str) -> None:
    """What breaks a limit runs on the CPU, with the same result."""
    attrs = dict(attrs)
    point = attrs.pop("point", 4)
    q = Quantized()
    x = q.conv(q.data(4, 4, 5), "before", 6, kernel=1, point=4)
    q.op("op", kind, shape, [x], **attrs)
    y = q.conv(q.fix("op", point), "after", 7, kernel=1, point=3)
    assert why in compile_and_check(q.done(y)).report.on_cpu["op"]


def test_reorg_needs_groups_of_rows() -> None:
    q = Quantized()
    x = q.conv(q.data(6, 4, 5), "before", 6, kernel=1, point=4)
    q.op("op", "reorg", (3, 2, 24), [x], scale=2, reverse=False)
    compiled = compile_with_report(q.done(q.fix("op", 4)), Target.from_name("B512"))
    assert '"height"(6) in multiples of 4' in compiled.report.on_cpu["op"]


def test_random_moves_in_a_row() -> None:
    """Views of views, and results that have several places at once."""
    seed = int(os.environ.get("OPENDPU_SEED", random.SystemRandom().randrange(1 << 31)))
    print(f"OPENDPU_SEED={seed}")
    pick = np.random.default_rng(seed)
    for _ in range(8):
        case = int(pick.integers(1 << 30))
        try:
            _random_moves(np.random.default_rng(case))
        except Exception as error:
            error.add_note(f"case {case}")
            raise


def _random_moves(pick: np.random.Generator) -> None:
    q = Quantized()
    size = [int(n) for n in pick.integers(1, 9, 2)] + [int(pick.choice([4, 8, 12, 20]))]
    name = q.conv(q.data(*size[:2], 3), "first", size[2], kernel=1, point=4)
    kept = []
    for number in range(int(pick.integers(2, 5))):
        height, width, channels = q.graph[name].shape[1:]
        op, point = f"op{number}", int(pick.choice([4, 4, 4, 3]))
        match pick.choice(["cut", "pad", "tile", "up", "turn", "cat", "flat"]):
            case "cut":
                begin = [int(pick.integers(0, n)) for n in (height, width, channels)]
                step = [int(pick.integers(1, 3)) for _ in range(2)] + [1]
                limits = cut([0, *begin], [1, height, width, channels], [1, *step])
                shape = tuple(
                    -(-(n - b) // s)
                    for n, b, s in zip((height, width, channels), begin, step, strict=True)
                )
                q.op(op, "strided_slice", shape, [name], **limits)
            case "pad":
                mode = str(pick.choice(["CONSTANT", "SYMMETRIC"]))
                add = [0, 0, *(int(pick.integers(0, min(3, n + 1)))
                               for n in (height, height, width, width)), 0, 0]  # fmt: skip
                shape = (height + add[2] + add[3], width + add[4] + add[5], channels)
                q.op(op, "pad", shape, [name], paddings=add, mode=mode)
            case "tile" if channels % 4 == 0:
                shape = (2 * height, 2 * width, channels // 4)
                q.op(op, "gstiling", shape, [name], stride=2, reverse=True)
            case "up" if height * width < 200:
                shape = (height, 2 * width, channels)
                q.op(op, "resize", shape, [name], scale=[2.0, 1.0], mode="NEAREST")
            case "cat":
                axis = int(pick.integers(1, 4))
                shape = [height, width, channels]
                shape[axis - 1] *= 2
                q.op(op, "concat", tuple(shape), [name, name], axis=axis)
            case "flat":
                q.op(op, "reshape", (1, height * width, channels), [name],
                     shape=[1, 1, height * width, channels])  # fmt: skip
            case _:
                q.op(op, "transpose", (width, height, channels), [name], order=[0, 2, 1, 3])
        name = q.fix(op, point)
        kept += [name] if pick.random() < 0.2 else []
    y = q.conv(name, "last", 5, kernel=1, point=2)
    compiled = compile_and_check(q.done(y, *kept), str(pick.choice(TARGETS)))
    assert not compiled.report.on_cpu


@pytest.mark.parametrize("axis", [1, 3])
def test_dense_concatenation_copies_nothing(axis: int) -> None:
    """Every layer reads all results before it: they all are parts of the last concatenation."""
    q = Quantized()
    made = [q.conv(q.data(6, 6, 5), "first", 8, kernel=3, pad=1, point=4)]
    for number in range(4):
        y = made[0]
        if number:
            shape = [6, 6, 8]
            shape[axis - 1] *= len(made)
            q.op(f"cat{number}", "concat", tuple(shape), list(made), axis=axis)
            y = q.fix(f"cat{number}", 4)
        y = q.conv(y, f"conv{number}", 8, kernel=3, pad=1, point=4)
        if axis == 1:
            q.op(f"cut{number}", "strided_slice", (6, 6, 8), [y],
                 **cut([0, 0, 0, 0], [1, 6, 6, 8], [1] * 4))  # fmt: skip
            y = q.conv(q.fix(f"cut{number}", 4), f"new{number}", 8, kernel=1, point=4)
        made.append(y)
    compiled = compile_and_check(q.done(made[-1]))
    assert not compiled.report.on_cpu
    assert not moves(q)


def moves(q: Quantized) -> list[str]:
    graph = legalize(q.graph)
    (part,) = (p for p in partition(graph, TARGET, {}).parts if p.device == "DPU")
    network = lower(graph, part.nodes, set(graph.outputs), TARGET, cycles_alone)
    return [layer.name for layer in network.layers if isinstance(layer, MoveLayer)]


@pytest.mark.parametrize(
    ("kind", "result", "attrs"),
    [
        ("strided_slice", (2, 3, 8), cut([0, 0, 1, 0], [1, 4, 4, 8], [1, 2, 1, 1])),
        ("pad", (5, 4, 8), {"paddings": [0, 0, 1, 0] + [0] * 4, "mode": "CONSTANT",
                            "constant_values": [-0.5] * 8}),
        ("pad", (5, 4, 8), {"paddings": [0, 0, 1, 0] + [0] * 4, "mode": "SYMMETRIC"}),
        ("gstiling", (8, 8, 2), {"stride": 2, "reverse": True}),
        ("gstiling", (2, 2, 32), {"stride": 2, "reverse": False}),
        ("reorg", (8, 8, 2), {"scale": 2, "reverse": True}),
        ("reorg", (2, 2, 32), {"scale": 2, "reverse": False}),
        ("resize", (8, 12, 8), {"scale": [3.0, 2.0], "mode": "NEAREST"}),
        ("resize", (8, 8, 8), {"scale": [2.0, 2.0], "mode": "BILINEAR"}),
        ("transpose", (4, 4, 8), {"order": [0, 2, 1, 3]}),
        ("reduction_max", (4, 4, 1), {"axis": [3], "keep_dims": True}),
        ("argmax", (4, 4), {"axis": 3}),
    ],
)  # fmt: skip
def test_moves_with_nothing_to_compute_are_for_the_cpu(kind: str, result: tuple, attrs: dict):
    q = Quantized()
    x = q.data(4, 4, 8, point=4)
    q.op("op", kind, result, [x], **attrs)
    compiled = compile_and_check(q.done("op" if kind == "argmax" else q.fix("op", 4)))
    assert "no op of the DPU is next to it" in compiled.report.on_cpu["op"]


@pytest.mark.parametrize(("channels", "copied"), [(64, False), (24, True)])
@pytest.mark.parametrize("kind", ["gstiling", "pixel-shuffle"])
def test_a_convolution_writes_its_blocks(kind: str, channels: int, copied: bool) -> None:
    """Where it makes full blocks of output channels, its result is nowhere with the channels."""
    q = Quantized()
    x = q.conv(q.data(5, 6, 3), "first", 8, kernel=1, point=4)
    x = q.conv(x, "conv", channels, kernel=3, pad=1, point=4)
    attrs = {"stride": 2, "reverse": True} if kind == "gstiling" else {"scale": 2, "upscale": True}
    q.op("op", kind, (10, 12, channels // 4), [x], **attrs)
    y = q.conv(q.fix("op", 4), "after", 5, kernel=3, pad=1, point=2)
    assert not compile_and_check(q.done(y)).report.on_cpu
    assert bool(moves(q)) == copied


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("order", "copied"), [((0, 1), False), ((1, 0), True), ((0,), True)])
def test_slices_joined_again_are_what_they_were_cut_from(
    target: str, order: tuple[int, ...], copied: bool
) -> None:
    """As in the C2f blocks of YOLOv8; halves in another order, or one alone, are copied."""
    q = Quantized()
    x = q.conv(q.data(6, 8, 5), "before", 24, kernel=1)
    halves = []
    for number, first in enumerate((0, 12)):
        limits = cut([0, 0, 0, first], [1, 6, 8, first + 12], [1, 1, 1, 1])
        q.op(f"half{number}", "strided_slice", (6, 8, 12), [x], **limits)
        halves.append(q.fix(f"half{number}", 4))
    more = q.conv(halves[1], "more", 12, kernel=3, pad=1)
    parts = [halves[n] for n in order] + [more]
    q.op("joined", "concat", (6, 8, 12 * len(parts)), parts, axis=3)
    y = q.conv(q.fix("joined", 4), "after", 7, kernel=1)
    compiled = compile_and_check(q.done(y), target)
    assert not compiled.report.on_cpu
    assert bool(moves(q)) == copied
