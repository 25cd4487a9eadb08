# SPDX-License-Identifier: Apache-2.0
"""Dilated convolutions, within an instruction's kernel and beyond it."""

import dataclasses
import tracemalloc

import numpy as np
import pytest
from graph_draws import Quantized, compile_and_check
from random_graphs.check import check

from opendpu.compiler.dilation import Axis, parts_of
from opendpu.compiler.kinds import cycles_alone
from opendpu.compiler.layers import DilatedConvLayer
from opendpu.compiler.legalize import legalize
from opendpu.compiler.lower import candidates, lower
from opendpu.compiler.pipeline import compile_with_report
from opendpu_arch import isa
from opendpu_arch.target import Target

TARGETS = ("B64", "B512", "B4096")
Pair = tuple[int, int]


def dilated(
    q: Quantized, source: str, kernel: Pair, gap: Pair, pad: tuple[int, int, int, int],
    channels: int = 6, stride: Pair = (1, 1), act: str | None = None,
    kind: str = "conv2d", **attrs,
) -> str:  # fmt: skip
    """Add one; sizes are rows, columns; padding left, right, top, bottom."""
    _, height, width, inputs = q.graph[source].shape
    deep = kind == "depthwise-conv2d"
    channels = inputs if deep else channels
    rows = (height + pad[2] + pad[3] - (kernel[0] - 1) * gap[0] - 1) // stride[0] + 1
    columns = (width + pad[0] + pad[1] - (kernel[1] - 1) * gap[1] - 1) // stride[1] + 1
    group = attrs.get("group", 1)
    given = {
        "input": [source],
        "weights": [q.const("w", 1 if deep else channels, *kernel, inputs // group, point=8)],
        "bias": [q.const("b", channels, point=6)],
    }
    values = {
        "kernel": [*kernel[::-1]], "stride": [*stride[::-1]], "dilation": [*gap[::-1]],
        "pad": list(pad), "pad_mode": "FLOOR", **attrs,
    }  # fmt: skip
    q.graph.add("op", kind, (1, rows, columns, channels), given, values)
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
    network = lower(legalize(q.graph), ["op"], {"op"}, Target.from_name("B512"), cycles_alone)
    assert [layer.weights.shape for layer in network.layers] == [(6, 1, 1, 4)]


def test_zeros_between_far_taps_are_never_made() -> None:
    """Weights of 37 KB would be 22 MB with the zeros of dilation 36."""
    q = Quantized()
    graph = q.done(dilated(q, q.data(20, 20, 64), (3, 3), (36, 36), (36,) * 4, channels=64))
    fixed = legalize(graph)
    tracemalloc.start()
    try:
        lower(fixed, ["op"], {"op"}, Target.from_name("B512"), cycles_alone)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4_000_000


@pytest.mark.parametrize("attrs", [{"stride": (2, 2)}, {"stride": (3, 2)}, {"group": 2}])
def test_stride_and_groups_beyond_a_kernel(attrs: dict) -> None:
    q = Quantized()
    y = dilated(q, q.data(33, 33, 4), (3, 3), (12, 12), (12,) * 4, **attrs)
    assert not compile_and_check(q.done(y), runs=1).report.on_cpu


def test_columns_phase_by_phase_into_a_map_that_stays_on_chip_and_is_an_output() -> None:
    """What has been made of a row are columns that are apart in the banks and in DDR."""
    q = Quantized()
    y = dilated(q, q.data(45, 36, 19), (4, 4), (2, 3), (5, 5, 3, 3), channels=1, stride=(2, 2))
    index = q.op("index", "argmax", (23, 19), [q.add([y, y], "sum")], axis=3)
    target = dataclasses.replace(Target.from_name("B256"), bank_depth=256)
    check(q.done(y, index), target, seed=1)


def test_work_is_that_of_taps_on_the_map() -> None:
    """Of 9 taps an output at 17x17, dilation 9, only these meet inputs; none in more cycles."""
    q = Quantized()
    y = dilated(q, q.data(17, 17, 16), (3, 3), (9, 9), (9,) * 4, channels=16)
    compiled = compile_and_check(q.done(y), runs=1)
    (part,) = (s for s in compiled.report.subgraphs if s.device == "DPU")
    met = sum(0 <= o + gap < 17 for o in range(17) for gap in (-9, 0, 9))
    assert part.macs == met * met * 16 * 16
    assert 0 < part.utilization <= 1


def test_zeros_are_not_read_from_memory() -> None:
    """Rows that some kernel rows do not meet are constants, and no bytes in reports."""
    q = Quantized()
    y = dilated(q, q.data(16, 16, 16), (3, 3), (2, 2), (2,) * 4, channels=16)
    compiled = compile_and_check(q.done(y), "B4096", runs=1)
    (part,) = (s for s in compiled.report.subgraphs if s.device == "DPU")
    (program,) = (
        s for s in compiled.graph.get_root_subgraph().get_children() if s.has_attr("mc_code")
    )
    loads = [i for i in isa.decode(program.get_attr("mc_code")) if isinstance(i, isa.Load)]
    constants = [i for i in loads if i.broadcast == isa.LOAD_CONSTANT]
    assert constants
    every, zeros = (sum(i.length * i.channel for i in some) for some in (loads, constants))
    assert part.load_bytes == every - zeros


@pytest.mark.parametrize("target", ["B512", "B4096"])
@pytest.mark.parametrize(
    ("size", "kernel", "inputs", "outputs"), [(20, 3, 320, 64), (33, 3, 32, 48), (24, 5, 64, 32)]
)
def test_dilation_costs_at_most_a_third(
    size: int, kernel: int, inputs: int, outputs: int, target: str
) -> None:
    """A layer alone, from DDR to DDR, by the compiler's cost model."""
    chosen = Target.from_name(target)

    def cycles(gap: int) -> int:
        q = Quantized()
        pad = (kernel // 2 * gap,) * 4
        y = dilated(q, q.data(size, size, inputs), (kernel,) * 2, (gap,) * 2, pad, channels=outputs)
        return sum(s.cycles for s in compile_with_report(q.done(y), chosen).report.subgraphs)

    base = cycles(1)
    ratios = {gap: cycles(gap) / base for gap in (2, 6, 18)}
    assert max(ratios.values()) <= 1.3, ratios


@pytest.mark.parametrize("gap", [2, 5, 12, 18])
def test_depthwise_dilations_run_on_the_dpu(gap: int) -> None:
    """With more padding, too, than an instruction has."""
    q = Quantized()
    y = dilated(q, q.data(20, 21, 20), (3, 5), (gap, gap), (2 * gap,) * 2 + (gap,) * 2,
                kind="depthwise-conv2d")  # fmt: skip
    assert not compile_and_check(q.done(y), "B64", runs=1).report.on_cpu


def test_depthwise_dilation_of_two_costs_at_most_a_third() -> None:
    """Parts of the pixels share their weights, which are loaded once."""
    cycles = []
    for gap in (1, 2):
        q = Quantized()
        y = dilated(q, q.data(20, 20, 320), (5, 5), (gap, gap), (2 * gap,) * 4,
                    kind="depthwise-conv2d")  # fmt: skip
        compiled = compile_with_report(q.done(y), Target.from_name("B4096"))
        cycles.append(sum(s.cycles for s in compiled.report.subgraphs))
    assert cycles[1] <= 1.3 * cycles[0], cycles


def _meets_nothing(
    q: Quantized, node: str, kernel: Pair, gap: Pair, stride: Pair, pad: list[int]
) -> bool:
    """Tell whether no tap of a convolution meets an input, along some axis."""
    (source,) = q.graph[node].inputs["input"]
    return any(
        not any(
            0
            <= o * stride[axis] + tap * gap[axis] - pad[2 - 2 * axis]
            < q.graph[source].shape[1 + axis]
            for o in range(q.graph[node].shape[1 + axis])
            for tap in range(kernel[axis])
        )
        for axis in (0, 1)
    )


def test_random_dilations(rng: np.random.Generator) -> None:
    """Sizes, dilations up to 36, strides, groups and paddings of all sides."""
    done = 0
    while done < 12:
        seed = int(rng.integers(1 << 30))
        pick = np.random.default_rng(seed)
        q = Quantized(seed)
        height, width = (int(n) for n in pick.integers(4, 45, 2))
        group = int(pick.choice([1, 1, 1, 2]))
        kind = str(pick.choice(["conv2d", "conv2d", "depthwise-conv2d"]))
        inputs, channels = (group * int(n) for n in pick.integers(1, 30, 2))
        kernel = tuple(int(k) for k in pick.integers(1, 6, 2))
        gap = tuple(int(g) for g in pick.integers(1, 37, 2))
        stride = tuple(int(n) for n in pick.choice([1, 1, 2, 3, 5], 2))
        reach = [(k - 1) * g for k, g in zip(kernel, gap, strict=True)]
        pad = [int(pick.integers(0, reach[axis] + 1)) for axis in (1, 1, 0, 0)]
        sizes = (height + sum(pad[2:]) - reach[0], width + sum(pad[:2]) - reach[1])
        deep = kind == "depthwise-conv2d"
        if min(sizes) < 1 or max(gap) == 1 or (deep and max(stride) > 1):
            continue
        group = 1 if deep else group
        done += 1
        y = dilated(
            q, q.data(height, width, inputs), kernel, gap, tuple(pad), channels, stride,
            kind=kind, **({} if deep else {"group": group}),
        )  # fmt: skip
        target = str(pick.choice(TARGETS))
        try:
            compiled = compile_and_check(q.done(y), target, runs=1)
        except AssertionError as error:
            error.add_note(f"seed {seed}, {kernel} {gap} {stride} {pad}, target {target}")
            raise
        if compiled.report.on_cpu and not deep:
            assert _meets_nothing(q, "op", kernel, gap, stride, pad), (seed, compiled.report.on_cpu)


def test_far_taps_of_depthwise_kernels_are_gathered_for_the_array() -> None:
    """By parts of the pixels, 144 of them, it takes twice as long and more."""
    q = Quantized()
    dilated(q, q.data(20, 20, 960), (3, 3), (12, 12), (12,) * 4, kind="depthwise-conv2d")
    q.graph.outputs = ["op_fix"]
    network = lower(legalize(q.graph), ["op"], {"op"}, Target.from_name("B4096"), cycles_alone)
    (layer,) = network.layers
    assert isinstance(layer, DilatedConvLayer) and layer.depthwise


@pytest.mark.parametrize("target", ["B64", "B512", "B4096"])
@pytest.mark.parametrize(
    ("gap", "kernel", "channels", "attrs"),
    [
        ((6, 6), (3, 3), 24, {}), ((5, 3), (3, 5), 7, {}), ((2, 4), (5, 3), 40, {"stride": (2, 2)}),
        ((9, 2), (2, 2), 16, {"act": "relu"}),
    ],
)  # fmt: skip
def test_depthwise_kernels_on_the_array(
    gap: Pair, kernel: Pair, channels: int, attrs: dict, target: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(candidates, "LANES_PRICE", 0.0)
    q = Quantized()
    pad = tuple(n * (k // 2) for n, k in zip(gap, kernel, strict=True))
    y = dilated(
        q, q.data(19, 17, channels), kernel, gap, (pad[1], pad[1], pad[0], pad[0]),
        kind="depthwise-conv2d", **attrs,
    )  # fmt: skip
    assert not compile_and_check(q.done(y), target, runs=1).report.on_cpu


def test_kernels_whose_parts_do_not_fit_are_not_trimmed() -> None:
    """Nine taps of 200 channel groups are 1800 of 2048 words; by parts of kernels they are 4200."""
    q = Quantized()
    y = dilated(q, q.data(9, 9, 800), (3, 3), (4, 4), (4,) * 4, channels=4)
    assert not compile_and_check(q.done(y), "B64", runs=1).report.on_cpu
