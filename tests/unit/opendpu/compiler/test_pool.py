# SPDX-License-Identifier: Apache-2.0
"""Windows of pooling as large as the guide allows, and maxima beyond."""

import pytest
from graph_draws import Quantized, compile_and_check

Pair = tuple[int, int]


def pool(
    q: Quantized, kind: str, size: tuple[int, int, int], kernel: Pair, stride: Pair,
    pad: tuple[int, int, int, int] = (0, 0, 0, 0), point: int = 4, **more: bool,
) -> str:  # fmt: skip
    """Add one; sizes are height, width; padding left, right, top, bottom."""
    height, width, channels = size
    rows = (height + pad[2] + pad[3] - kernel[0]) // stride[0] + 1
    columns = (width + pad[0] + pad[1] - kernel[1]) // stride[1] + 1
    attrs = {"kernel": [kernel[1], kernel[0]], "stride": [stride[1], stride[0]], "pad": list(pad)}
    q.op("op", kind, (rows, columns, channels), [q.data(*size)], pad_mode="FLOOR", **attrs, **more)
    return q.fix("op", point)


@pytest.mark.parametrize("kind", ["maxpool2d", "avgpool2d"])
@pytest.mark.parametrize(
    ("size", "kernel", "target"),
    [((112, 112, 40), (112, 112), "B4096"), ((256, 64, 20), (256, 64), "B4096"),
     ((56, 56, 30), (56, 56), "B512"), ((30, 100, 5), (30, 100), "B64")],
)  # fmt: skip
def test_global_windows(kind: str, size: tuple[int, int, int], kernel: Pair, target: str) -> None:
    """ceil(height / PP) * width words, though the rows of a stride would be more."""
    q = Quantized()
    y = pool(q, kind, size, kernel, kernel)
    assert not compile_and_check(q.done(y), target, runs=1).report.on_cpu


@pytest.mark.parametrize(
    ("size", "kernel", "stride", "pad"),
    [
        ((110, 90, 5), (110, 90), (110, 90), (0, 0, 0, 0)),
        ((120, 95, 5), (100, 80), (7, 3), (0, 0, 0, 0)),
        ((100, 80, 5), (90, 70), (5, 9), (15, 14, 13, 60)),
        ((250, 240, 2), (230, 220), (1, 2), (0, 0, 0, 0)),
    ],
)
def test_maxima_in_steps(
    size: tuple[int, int, int], kernel: Pair, stride: Pair, pad: tuple[int, int, int, int]
) -> None:
    q = Quantized()
    y = pool(q, "maxpool2d", size, kernel, stride, pad, point=6)
    assert not compile_and_check(q.done(y), "B64", runs=1).report.on_cpu


def test_averages_are_not_split() -> None:
    q = Quantized()
    y = pool(q, "avgpool2d", (300, 4, 3), (300, 4), (300, 4))
    reasons = compile_and_check(q.done(y), "B64", runs=1).report.on_cpu
    assert 'DPU only supports "kernel_height"(300) in 1..256' in reasons["op"]


@pytest.mark.parametrize(
    ("size", "kernel", "stride", "pad"),
    [
        ((28, 28, 40), (3, 3), (1, 1), (1, 1, 1, 1)),
        ((27, 28, 5), (3, 3), (2, 2), (1, 1, 1, 1)),
        ((6, 6, 70), (7, 7), (1, 1), (0, 1, 0, 1)),
        ((13, 9, 5), (5, 5), (1, 1), (2, 2, 2, 2)),
        ((8, 8, 5), (2, 3), (2, 1), (0, 2, 1, 0)),
        ((3, 3, 5), (5, 5), (1, 1), (2, 2, 2, 2)),
        ((20, 20, 5), (6, 4), (3, 4), (3, 0, 0, 4)),
    ],
)
@pytest.mark.parametrize("target", ["B64", "B512"])
def test_averages_that_exclude_the_padding(
    size: tuple[int, int, int], kernel: Pair, stride: Pair, pad: tuple[int, int, int, int],
    target: str,
) -> None:  # fmt: skip
    """Windows of every size have a factor of their own, as ONNX's count_include_pad=0 wants it."""
    q = Quantized()
    y = pool(q, "avgpool2d", size, kernel, stride, pad, count_include_pad=False)
    assert not compile_and_check(q.done(y), target, runs=1).report.on_cpu


def test_averages_of_too_many_sizes_are_for_the_cpu() -> None:
    q = Quantized()
    y = pool(q, "avgpool2d", (20, 20, 5), (7, 7), (1, 1), (3,) * 4, count_include_pad=False)
    reasons = compile_and_check(q.done(y), "B64", runs=1).report.on_cpu
    assert "have up to 25 parts with windows of one size" in reasons["op"]
    assert "they are 49; less padding would lift it" in reasons["op"]
