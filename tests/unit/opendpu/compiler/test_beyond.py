# SPDX-License-Identifier: Apache-2.0
"""Ops just within and just beyond a limit: on the DPU, or on the CPU with that limit as reason.

Results are those of the reference on both sides: an op rounds alike wherever it runs.
"""

from collections.abc import Callable

import pytest
from graph_draws import Quantized, compile_and_check

Build = Callable[[Quantized, int], str]


def conv(**options) -> Build:
    """Return a builder of a convolution whose option ``vary`` has the value that is tried."""
    vary = options.pop("vary")
    size = options.pop("size", (20, 20, 3))

    def build(q: Quantized, value: int) -> str:
        return q.conv(q.data(*size), "op", 4, **{**options, vary: value})

    return build


def pool(kind: str, vary: str, **options) -> Build:
    def build(q: Quantized, value: int) -> str:
        return q.pool(q.data(3, 280, 3), "op", kind, **{**options, vary: value})

    return build


def pool_words(q: Quantized, value: int) -> str:
    """A window of 256 rows; its input is so small that it is in the banks as a whole."""
    x = q.data(256, 17, 1)
    attrs = {"kernel": [value, 256], "stride": [1, 1], "pad": [0] * 4, "pad_mode": "FLOOR"}
    q.op("op", "avgpool2d", (1, 18 - value, 1), [x], **attrs)
    return q.fix("op", 5)


def wide(kernel: list[int], **attrs) -> Build:
    """Return a builder of a depthwise convolution of one row, ``kernel`` columns and padding."""

    def build(q: Quantized, value: int) -> str:
        size = [value if v < 0 else v for v in kernel]
        pad = [value if v < 0 else v for v in attrs.get("pad", [0, 0, 0, 0])]
        x = q.data(4, 300, 3)
        columns = 300 - size[0] + 1 + pad[0] + pad[1]
        given = {
            "input": [x],
            "weights": [q.const("w", 1, size[1], size[0], 3, point=8)],
            "bias": [q.const("b", 3, point=6)],
        }
        values = {"kernel": size, "stride": [1, 1], "pad": pad, "pad_mode": "FLOOR"}
        rows = 4 - size[1] + 1 + pad[2] + pad[3]
        q.graph.add("op", "depthwise-conv2d", (1, rows, columns, 3), given, values)
        return q.fix("op", 3)

    return build


def channels(q: Quantized, value: int) -> str:
    return q.conv(q.data(2, 2, value), "op", 4, kernel=1)


def words(q: Quantized, value: int) -> str:
    return q.conv(q.data(16, 17, value), "op", 2, kernel=16, point=2)


def terms(q: Quantized, value: int) -> str:
    x = q.data(4, 4, 5)
    return q.add([q.conv(x, f"c{n}", 6, kernel=1, point=3 + n % 3) for n in range(value)], "op")


def average_shift(q: Quantized, value: int) -> str:
    return q.pool(q.data(6, 6, 3, point=-2), "op", "avgpool2d", 3, point=value - 2)


def relu6_point(q: Quantized, value: int) -> str:
    q.op("op", "relu6", (4, 4, 5), [q.conv(q.data(4, 4, 3), "c", 5, kernel=1, point=4)])
    return q.fix("op", 8 - value)


CASES: dict[str, tuple[Build, int, str]] = {
    "kernel": (conv(vary="kernel"), 16, '"kernel_height"(17) in 1..16'),
    "stride": (conv(vary="stride"), 8, '"stride_width"(9) in 1..8'),
    "padding": (conv(vary="pad", kernel=3), 2, '"pad_left"(3) less than "kernel_width"(3)'),
    "depthwise kernel": (wide([-1, 2]), 256, '"kernel_width"(257) in 1..256'),
    "depthwise padding": (
        wide([20, 2], pad=[-1, 0, 0, 0]), 15, '"pad_left"(16) in 0..15',
    ),
    "channels": (channels, 1024, '"input_channel"(1025) up to 1024'),
    "weights": (words, 32, "16x16 with 9 channel groups needs 2304"),
    "pool stride": (
        pool("maxpool2d", "stride", kernel=2), 256, '"stride_width"(257) in 1..256',
    ),
    "window": (
        pool_words, 2048 // 128, '2 banks of "bank_depth"(2048) words, but 256x17 pixels need 2176',
    ),
    "terms": (terms, 4, '"input_num"(5) up to 4'),
    "average shift": (average_shift, 13, "shifts by -7..55 bits, but here it is -8"),
    "relu6": (relu6_point, 4, '"fix_point"(3) at least 4'),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_just_within(case: str) -> None:
    build, most, _ = CASES[case]
    q = Quantized()
    assert not compile_and_check(q.done(build(q, most)), "B64", runs=1).report.on_cpu


@pytest.mark.parametrize("case", CASES)
def test_just_beyond(case: str) -> None:
    build, most, text = CASES[case]
    q = Quantized()
    reasons = compile_and_check(q.done(build(q, most + 1)), "B64", runs=1).report.on_cpu
    assert text in reasons["op"]
    assert "would lift it (XCOM_" in reasons["op"]
