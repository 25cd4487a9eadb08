# SPDX-License-Identifier: Apache-2.0
"""Transposed convolutions, as one convolution for each phase."""

import numpy as np
import pytest
from graph_draws import Quantized, compile_and_check

from opendpu.compiler.kinds import cycles_alone
from opendpu.compiler.legalize import legalize
from opendpu.compiler.lower import lower
from opendpu.compiler.phases import phases
from opendpu.compiler.pipeline import Compiled
from opendpu_arch.target import Target

TARGETS = ("B64", "B512", "B4096")
DENSE, DEPTHWISE = "transposed-conv2d", "transposed-depthwise-conv2d"


def transposed(
    q: Quantized, source: str, name: str, channels: int, kernel: tuple[int, int],
    stride: tuple[int, int], pad: tuple[int, int, int, int] = (0, 0, 0, 0), point: int = 3,
    kind: str = DENSE, act: str | None = None, **attrs,
) -> str:  # fmt: skip
    """Add one; sizes are height, width, padding left, right, top, bottom."""
    _, height, width, inputs = q.graph[source].shape
    rows = (height - 1) * stride[0] + kernel[0] - pad[2] - pad[3]
    columns = (width - 1) * stride[1] + kernel[1] - pad[0] - pad[1]
    weights = (channels, *kernel, inputs) if kind == DENSE else (1, *kernel, inputs)
    given = {
        "input": [source],
        "weights": [q.const(f"{name}_w", *weights, point=8)],
        "bias": [q.const(f"{name}_b", channels, point=6)],
    }
    values = {
        "kernel": [kernel[1], kernel[0]], "stride": [stride[1], stride[0]], "pad": list(pad),
        "pad_mode": "FLOOR", **attrs,
    }  # fmt: skip
    q.graph.add(name, kind, (1, rows, columns, channels), given, values)
    return q.finish(name, point, act)


@pytest.mark.parametrize(
    ("kernel", "stride", "before"), [(4, 2, 1), (3, 2, 0), (2, 3, 1), (5, 1, 2)]
)
def test_phases_meet_every_product_once(kernel: int, stride: int, before: int) -> None:
    """Against the definition: input times weight goes to ``input * stride + its place``."""
    size = 6
    outputs = (size - 1) * stride + kernel - before
    wanted = {
        (i * stride + kernel - 1 - k - before, i, k)
        for i in range(size)
        for k in range(kernel)
        if 0 <= i * stride + kernel - 1 - k - before < outputs
    }
    found = []
    for phase in phases(kernel, stride, before, outputs):
        for q in range(phase.count):
            for place, tap in enumerate(phase.taps):
                i = q + place - phase.pad
                if tap is not None and 0 <= i < size:
                    found.append((phase.start + q * stride, i, tap))
    assert sorted(found) == sorted(wanted)


@pytest.mark.parametrize("act", [None, "relu"])
@pytest.mark.parametrize(
    ("kernel", "stride", "pad"),
    [
        ((2, 2), (2, 2), (0, 0, 0, 0)),
        ((4, 4), (2, 2), (1, 1, 1, 1)),
        ((3, 3), (2, 2), (1, 0, 1, 0)),
        ((3, 3), (1, 1), (1, 1, 1, 1)),
        ((5, 3), (3, 2), (2, 1, 0, 4)),
        ((1, 2), (2, 3), (0, 0, 0, 0)),
        ((16, 4), (1, 4), (0, 3, 5, 0)),
    ],
)
@pytest.mark.parametrize("kind", [DENSE, DEPTHWISE])
def test_kernels_and_strides(
    kind: str, kernel: tuple[int, int], stride: tuple[int, int], pad: tuple[int, ...],
    act: str | None,
) -> None:  # fmt: skip
    q = Quantized()
    channels = 9 if kind == DENSE else 11
    x = q.conv(q.data(7, 6, 5), "conv", 11, kernel=1, point=4)
    y = transposed(q, x, "up", channels, kernel, stride, pad, kind=kind, act=act)
    assert not compile_and_check(q.done(y)).report.on_cpu


@pytest.mark.parametrize("mode", ["SAME", "VALID"])
def test_pad_modes(mode: str) -> None:
    q = Quantized()
    pad = (0, 1, 0, 1) if mode == "SAME" else (0, 0, 0, 0)
    y = transposed(q, q.data(5, 4, 6), "up", 7, (3, 3), (2, 2), pad, pad_mode=mode)
    assert not compile_and_check(q.done(y)).report.on_cpu


def test_between_layers_and_in_a_concatenation() -> None:
    q = Quantized()
    x = q.conv(q.data(8, 8, 3), "conv", 12, kernel=3, pad=1, point=4)
    small = q.pool(x, "pool", "maxpool2d", 2, stride=2, point=4)
    up = transposed(q, small, "up", 5, (2, 2), (2, 2), point=4)
    q.op("cat", "concat", (8, 8, 17), [up, x], axis=3)
    y = q.conv(q.fix("cat", 4), "y", 6, kernel=3, pad=1)
    assert not compile_and_check(q.done(y)).report.on_cpu


@pytest.mark.parametrize(
    ("kernel", "stride", "layers"), [(2, 2, 2), (4, 2, 2), (3, 2, 4), (2, 1, 1)]
)
def test_phases_of_columns_that_meet_the_same_inputs_are_one_layer(
    kernel: int, stride: int, layers: int
) -> None:
    q = Quantized()
    transposed(q, q.data(6, 7, 3), "up", 5, (kernel, kernel), (stride, stride))
    q.graph.outputs = ["up_fix"]
    graph = legalize(q.graph)
    network = lower(graph, ["up"], {"up"}, Target.from_name("B512"), cycles_alone)
    assert len(network.layers) == layers


def refused(q: Quantized, y: str) -> str:
    compiled: Compiled = compile_and_check(q.done(y))
    return compiled.report.on_cpu["up"]


def test_kernel_beyond_the_limit() -> None:
    q = Quantized()
    y = transposed(q, q.data(4, 4, 2), "up", 3, (33, 2), (2, 2), (0, 0, 20, 0))
    assert 'DPU only supports "kernel_height"(33) / "stride_height"(2) in 1..16' in refused(q, y)


def test_padding_beyond_the_limit() -> None:
    q = Quantized()
    y = transposed(q, q.data(4, 4, 2), "up", 2, (40, 2), (2, 2), (0, 0, 3, 3), kind=DEPTHWISE)
    assert 'DPU only supports "pad_top"(3) of at least 8 with a kernel of 40' in refused(q, y)


def test_random_transposed(rng: np.random.Generator) -> None:
    for _ in range(12):
        seed = int(rng.integers(1 << 30))
        pick = np.random.default_rng(seed)
        q = Quantized(seed)
        kind = str(pick.choice([DENSE, DEPTHWISE]))
        height, width, inputs, channels = (int(n) for n in pick.integers(1, 14, 4))
        channels = channels if kind == DENSE else inputs
        kernel = tuple(int(n) for n in pick.integers(1, 7, 2))
        stride = tuple(int(n) for n in pick.integers(1, 5, 2))
        pad = []
        for axis, size in ((1, width), (0, height)):
            left = int(pick.integers(0, kernel[axis]))
            most = min(kernel[axis] - 1, (size - 1) * stride[axis] + kernel[axis] - left - 1)
            pad += [left, int(pick.integers(0, max(0, most) + 1))]
        x = q.data(height, width, inputs)
        y = transposed(q, x, "up", channels, kernel, stride, tuple(pad), kind=kind)
        target = str(pick.choice(TARGETS))
        try:
            compiled = compile_and_check(q.done(y), target, runs=1)
        except AssertionError as error:
            error.add_note(f"seed {seed}, {kind} {kernel} {stride} {pad}, target {target}")
            raise
        assert not compiled.report.on_cpu, seed
