# SPDX-License-Identifier: Apache-2.0
"""Dilated convolutions, within an instruction's kernel and beyond it."""

import numpy as np
import pytest
from graph_draws import Quantized, compile_and_check

from opendpu.compiler.dilation import Axis, parts_of
from opendpu.compiler.legalize import legalize
from opendpu.compiler.lower import lower
from opendpu_arch.target import Target

TARGETS = ("B64", "B512", "B4096")
Pair = tuple[int, int]


def dilated(
    q: Quantized, source: str, kernel: Pair, gap: Pair, pad: tuple[int, int, int, int],
    channels: int = 6, stride: Pair = (1, 1), act: str | None = None, **attrs,
) -> str:  # fmt: skip
    """Add one; sizes are rows, columns; padding left, right, top, bottom."""
    _, height, width, inputs = q.graph[source].shape
    rows = (height + pad[2] + pad[3] - (kernel[0] - 1) * gap[0] - 1) // stride[0] + 1
    columns = (width + pad[0] + pad[1] - (kernel[1] - 1) * gap[1] - 1) // stride[1] + 1
    group = attrs.get("group", 1)
    given = {
        "input": [source],
        "weights": [q.const("w", channels, *kernel, inputs // group, point=8)],
        "bias": [q.const("b", channels, point=6)],
    }
    values = {
        "kernel": [*kernel[::-1]], "stride": [*stride[::-1]], "dilation": [*gap[::-1]],
        "pad": list(pad), "pad_mode": "FLOOR", **attrs,
    }  # fmt: skip
    q.graph.add("op", "conv2d", (1, rows, columns, channels), given, values)
    return q.finish("op", 3, act)


@pytest.mark.parametrize(
    ("taps", "gap", "parts", "pad"), [(3, 1, 4, 4), (3, 2, 3, 5), (2, 1, 7, 0)]
)
def test_parts_meet_every_product_once(taps: int, gap: int, parts: int, pad: int) -> None:
    axis = Axis(first=0, taps=taps, gap=gap, parts=parts, stride=1, pad=pad)
    size = 17
    outputs = size + 2 * pad - (taps - 1) * gap * parts
    wanted = {
        (o, i, tap)
        for o in range(outputs)
        for tap in range(taps)
        if 0 <= (i := o + tap * gap * parts - pad) < size
    }
    found = [
        (part.start + q * parts, part.offset + i * parts, tap)
        for part in parts_of(axis, size, outputs)
        for q in range(part.outputs)
        for tap in range(taps)
        if 0 <= (i := q + tap * gap - part.pad) < part.inputs
    ]
    assert sorted(found) == sorted(wanted)


@pytest.mark.parametrize("target", ["B512", "B4096"])
@pytest.mark.parametrize("gap", [2, 8, 18, 40])
def test_dilation_as_in_segmentation(gap: int, target: str) -> None:
    """3x3 with the padding that keeps the size, from within a kernel to beyond the map."""
    q = Quantized()
    x = q.conv(q.data(33, 33, 4), "conv", 20, kernel=1, point=4)
    y = dilated(q, x, (3, 3), (gap, gap), (gap,) * 4, act="relu")
    assert not compile_and_check(q.done(y), target, runs=1).report.on_cpu


def test_weights_that_only_fit_without_zeros() -> None:
    """13x13 of 40 channels in words of 2 are 3380 words, 3x3 are 180."""
    q = Quantized()
    y = dilated(q, q.data(20, 20, 40), (3, 3), (6, 6), (6,) * 4)
    assert not compile_and_check(q.done(y), "B144", runs=1).report.on_cpu


def test_weights_that_only_meet_padding_are_left_out() -> None:
    q = Quantized()
    dilated(q, q.data(17, 17, 4), (3, 3), (24, 24), (24,) * 4)
    q.graph.outputs = ["op_fix"]
    network = lower(legalize(q.graph), ["op"], {"op"}, Target.from_name("B512"))
    assert [layer.weights.shape for layer in network.layers] == [(6, 1, 1, 4)]


def test_stride_and_groups_beyond_a_kernel() -> None:
    for attrs in ({"stride": (2, 2)}, {"group": 2}):
        q = Quantized()
        y = dilated(q, q.data(33, 33, 4), (3, 3), (12, 12), (12,) * 4, **attrs)
        reasons = compile_and_check(q.done(y), runs=1).report.on_cpu
        assert '"kernel_height"(25) in 1..16' in reasons["op"]


def test_random_dilations(rng: np.random.Generator) -> None:
    for _ in range(5):
        seed = int(rng.integers(1 << 30))
        pick = np.random.default_rng(seed)
        q = Quantized(seed)
        height, width, channels = (int(n) for n in pick.integers(5, 30, 3))
        kernel = tuple(int(k) for k in pick.integers(1, 5, 2))
        gap = tuple(int(g) for g in pick.integers(1, 14, 2))
        reach = [(k - 1) * g for k, g in zip(kernel, gap, strict=True)]
        pad = [int(pick.integers(0, reach[axis] + 1)) for axis in (1, 1, 0, 0)]
        sizes = (height + sum(pad[2:]) - reach[0], width + sum(pad[:2]) - reach[1])
        if min(sizes) < 1:
            continue
        y = dilated(q, q.data(height, width, channels), kernel, gap, tuple(pad))
        target = str(pick.choice(TARGETS))
        try:
            compiled = compile_and_check(q.done(y), target, runs=1)
        except AssertionError as error:
            error.add_note(f"seed {seed}, {kernel} {gap} {pad}, target {target}")
            raise
        assert not compiled.report.on_cpu or max(reach) > 15, seed
