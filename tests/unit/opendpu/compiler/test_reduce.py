# SPDX-License-Identifier: Apache-2.0
"""Reductions and pooling with any window: simulator against the integer reference."""

import numpy as np
import pytest
from graph_draws import Quantized, compile_and_check

from opendpu.compiler.pipeline import Compiled, compile_with_report
from opendpu.runtime import GraphRunner
from opendpu_arch.target import Target

TARGETS = ["B512", "B4096"]


def pooled(kind: str, size: tuple, result: tuple, target: str = "B512", **attrs) -> Compiled:
    q = Quantized()
    x = q.conv(q.data(*size[:2], 3), "before", size[2], kernel=1, point=4)
    q.op("op", kind, result, [x], **attrs)
    y = q.fix("op", 3 if kind != "reduction_mean" else 5)
    return compile_and_check(q.done(y), target)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("axes", "result"),
    [([1, 2], (1, 1, 20)), ([1], (1, 9, 20)), ([2], (6, 1, 20)), ([3], (6, 9, 1)),
     ([1, 2, 3], (1, 1, 1)), ([1, 3], (1, 9, 1))],
)  # fmt: skip
@pytest.mark.parametrize("kept", [True, False])
def test_reduction_max(axes: list[int], result: tuple, kept: bool, target: str) -> None:
    if not kept:
        result = tuple(n for a, n in enumerate(result, 1) if a not in axes)
    compiled = pooled("reduction_max", (6, 9, 20), result, target, axis=axes, keep_dims=kept)
    assert not compiled.report.on_cpu


@pytest.mark.parametrize(("axes", "result"), [([1, 2], (1, 1, 20)), ([2], (6, 1, 20))])
def test_means_are_average_pools(axes: list[int], result: tuple) -> None:
    compiled = pooled("reduction_mean", (6, 9, 20), result, axis=axes, keep_dims=True)
    assert not compiled.report.on_cpu


def test_means_of_channels_are_for_the_cpu() -> None:
    compiled = pooled("reduction_mean", (6, 9, 20), (6, 9, 1), axis=[3], keep_dims=True)
    assert "rows and columns" in compiled.report.on_cpu["op"]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("size", "window", "result"),
    [
        ((300, 2), {"kernel": [2, 300], "stride": [2, 300]}, (1, 1)),
        ((2, 767), {"kernel": [767, 2], "stride": [1, 1]}, (1, 1)),
        ((2, 700), {"kernel": [300, 1], "stride": [7, 1]}, (2, 58)),
        ((300, 3), {"kernel": [3, 270], "stride": [1, 5], "pad": [1, 1, 3, 2]}, (8, 3)),
        ((120, 120), {"kernel": [110, 110], "stride": [2, 2]}, (6, 6)),
    ],
)
def test_large_maximum_windows(size: tuple, window: dict, result: tuple, target: str) -> None:
    """Of more than 256 rows or columns, or than a bank holds: maxima of maxima."""
    attrs = {"pad": [0] * 4, "pad_mode": "FLOOR", **window}
    compiled = pooled("maxpool2d", (*size, 5), (*result, 5), target, **attrs)
    assert not compiled.report.on_cpu


def test_large_averages_are_for_the_cpu() -> None:
    attrs = {"kernel": [1, 300], "stride": [1, 300], "pad": [0] * 4, "pad_mode": "FLOOR"}
    compiled = pooled("avgpool2d", (300, 2, 5), (1, 2, 5), **attrs)
    assert '"kernel_height"(300) in 1..256' in compiled.report.on_cpu["op"]


@pytest.mark.parametrize(("channels", "on_dpu"), [(1, True), (21, True), (256, True), (257, False)])
@pytest.mark.parametrize("target", TARGETS)
def test_argmax(channels: int, on_dpu: bool, target: str) -> None:
    """The result is int32, as the op's; the first of several largest channels counts."""
    q = Quantized()
    x = q.conv(q.data(5, 7, 4), "before", channels, kernel=1, point=2)
    q.op("op", "argmax", (5, 7), [x], axis=3)
    graph = q.done("op", x)
    compiled = compile_with_report(graph, Target.from_name(target))
    assert bool(compiled.report.on_cpu) != on_dpu
    given = np.random.default_rng(channels).integers(-128, 128, (1, 5, 7, 4), np.int8)
    with GraphRunner(compiled.graph, device="iss", target=Target.from_name(target)) as runner:
        found = runner.run({"x": given})
    assert found["op"].dtype == np.int32
    np.testing.assert_array_equal(found["op"], found["before_fix"].argmax(axis=3))


def test_argmax_over_rows_is_for_the_cpu() -> None:
    q = Quantized()
    x = q.conv(q.data(5, 7, 4), "before", 6, kernel=1, point=2)
    q.op("op", "argmax", (7, 6), [x], axis=1)
    compiled = compile_with_report(q.done("op"), Target.from_name("B512"))
    assert '"axis"(1) of argmax' in compiled.report.on_cpu["op"]


@pytest.mark.parametrize("kind", ["conv2d", "depthwise-conv2d"])
def test_zeros_before_a_convolution_are_its_padding(kind: str) -> None:
    q = Quantized()
    x = q.conv(q.data(6, 7, 5), "before", 8, kernel=1, point=4)
    q.op("pad", "pad", (9, 10, 8), [x], paddings=[0, 0, 1, 2, 2, 1, 0, 0], mode="CONSTANT")
    y = q.conv(q.fix("pad", 4), "after", 6, kernel=4, point=2, kind=kind)
    compiled = compile_and_check(q.done(y))
    assert not compiled.report.on_cpu
    assert not any(op.get_type() == "pad-fix" for op in compiled.graph.get_ops())


@pytest.mark.parametrize(("kind", "value"), [("maxpool2d", -8.0), ("avgpool2d", 0.0)])
def test_padding_of_pools(kind: str, value: float) -> None:
    q = Quantized()
    x = q.conv(q.data(6, 7, 5), "before", 8, kernel=1, point=4)
    q.op("pad", "pad", (8, 9, 8), [x], paddings=[0, 0, 1, 1, 1, 1, 0, 0], mode="CONSTANT",
         constant_values=[value] * 8)  # fmt: skip
    y = q.pool(q.fix("pad", 4), "pool", kind, 3, stride=2, point=4)
    compiled = compile_and_check(q.done(y))
    assert not any(op.get_type() == "pad-fix" for op in compiled.graph.get_ops())


def test_zeros_before_a_maximum_stay() -> None:
    q = Quantized()
    x = q.conv(q.data(6, 7, 5), "before", 8, kernel=1, point=4)
    q.op("pad", "pad", (8, 9, 8), [x], paddings=[0, 0, 1, 1, 1, 1, 0, 0], mode="CONSTANT")
    y = q.pool(q.fix("pad", 4), "pool", "maxpool2d", 3, stride=2, point=4)
    compiled = compile_and_check(q.done(y))
    assert any(op.get_type() == "pad-fix" for op in compiled.graph.get_ops())


def test_means_without_the_axes() -> None:
    compiled = pooled("reduction_mean", (6, 9, 20), (20,), axis=[1, 2], keep_dims=False)
    assert not compiled.report.on_cpu


def test_a_maximum_of_one_row_has_the_position_of_the_result() -> None:
    compiled = pooled("reduction_max", (1, 4, 13), (1, 4, 13), axis=[1], keep_dims=True)
    assert not compiled.report.on_cpu
