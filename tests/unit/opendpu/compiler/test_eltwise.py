# SPDX-License-Identifier: Apache-2.0
"""Sums and products of feature maps, and with constants."""

import numpy as np
import pytest
from graph_draws import Quantized, compile_and_check

from opendpu.compiler.pipeline import compile_with_report
from opendpu_arch.target import Target

TARGETS = ("B64", "B512", "B4096")


def two(q: Quantized, *points: int, size: tuple[int, int, int] = (6, 5, 10)) -> list[str]:
    height, width, channels = size
    x = q.data(height, width, 7)
    return [q.conv(x, f"c{n}", channels, kernel=1, point=p) for n, p in enumerate(points)]


@pytest.mark.parametrize("act", [None, "relu"])
@pytest.mark.parametrize("point", [-2, 3, 5, 9])
@pytest.mark.parametrize("target", TARGETS)
def test_product(target: str, point: int, act: str | None) -> None:
    q = Quantized()
    q.op("mul", "mul", (6, 5, 10), two(q, 5, 3))
    compiled = compile_and_check(q.done(q.finish("mul", point, act)), target)
    assert not compiled.report.on_cpu


def test_square() -> None:
    q = Quantized()
    (x,) = two(q, 5)
    q.op("mul", "mul", (6, 5, 10), [x, x])
    assert not compile_and_check(q.done(q.fix("mul", 5))).report.on_cpu


@pytest.mark.parametrize("shape", [(10,), (1,), (1, 1, 1, 10)])
@pytest.mark.parametrize("point", [2, 5, 9])
def test_product_with_a_constant_a_channel(point: int, shape: tuple[int, ...]) -> None:
    q = Quantized()
    q.op("mul", "mul", (6, 5, 10), [*two(q, 5), q.const("k", *shape, point=6)])
    compiled = compile_and_check(q.done(q.fix("mul", point)))
    assert not compiled.report.on_cpu
    assert compiled.graph.get_op("mul").get_type() == "depthwise-conv2d-fix"


@pytest.mark.parametrize("act", [None, "relu"])
@pytest.mark.parametrize("given", [3, 5, 7, 11])
@pytest.mark.parametrize("point", [2, 5, 7])
def test_sum_with_a_constant_a_channel(point: int, given: int, act: str | None) -> None:
    q = Quantized()
    q.op("add", "add", (6, 5, 10), [q.const("k", 10, point=given), *two(q, 5)])
    compiled = compile_and_check(q.done(q.finish("add", point, act)))
    assert not compiled.report.on_cpu


def test_sum_with_a_constant_too_coarse() -> None:
    q = Quantized()
    q.op("add", "add", (6, 5, 10), [*two(q, 5), q.const("k", 10, point=2)])
    reasons = compile_and_check(q.done(q.fix("add", 4))).report.on_cpu
    assert '"fix_point"(2) of the constant "k" at most 2 below' in reasons["add"]


def test_product_too_far() -> None:
    """A shift beyond the field; the reference refuses it too, so that no result is compared."""
    q = Quantized()
    q.op("mul", "mul", (6, 5, 10), two(q, 12, 9))
    graph = q.done(q.fix("mul", 5))
    reasons = compile_with_report(graph, Target.from_name("B512")).report.on_cpu
    assert 'DPU only supports "shift_write"(16) in -15..15' in reasons["mul"]


def narrow(q: Quantized, source: str, rows: int, columns: int, point: int = 5) -> str:
    """Add a maximum over rows, columns or both."""
    _, height, width, channels = q.graph[source].shape
    kernel = [width if columns == 1 else 1, height if rows == 1 else 1]
    attrs = {"kernel": kernel, "stride": kernel, "pad": [0] * 4, "pad_mode": "FLOOR"}
    q.op("most", "maxpool2d", (rows, columns, channels), [source], **attrs)
    return q.fix("most", point)


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (6, 1), (1, 5)])
@pytest.mark.parametrize("kind", ["add", "mul"])
@pytest.mark.parametrize("target", TARGETS)
def test_broadcast_of_pixels(target: str, kind: str, rows: int, columns: int) -> None:
    """Squeeze and excite: one value a channel, computed."""
    q = Quantized()
    (x,) = two(q, 5)
    q.op("both", kind, (6, 5, 10), [narrow(q, x, rows, columns, point=8), x])
    y = q.conv(q.fix("both", 4), "y", 5)
    assert not compile_and_check(q.done(y), target).report.on_cpu


@pytest.mark.parametrize("channels", [5, 40])
@pytest.mark.parametrize("target", TARGETS)
def test_a_pixel_for_every_place_is_not_copied(target: str, channels: int) -> None:
    """ELEW reads one word group for all rows and columns, whichever input it is, in any tile."""
    q = Quantized()
    (x,) = two(q, 5, size=(33, 70, channels))
    pixel = narrow(q, x, 1, 1, point=8)
    q.op("gated", "mul", (33, 70, channels), [pixel, x])
    q.op("sum", "add", (33, 70, channels), [q.fix("gated", 4), pixel])
    compiled = compile_and_check(q.done(q.fix("sum", 4)), target)
    (part,) = (s for s in compiled.report.subgraphs if s.device == "DPU")
    assert not compiled.report.on_cpu
    assert part.save_bytes <= 4 * 33 * 70 * channels


@pytest.mark.parametrize("kind", ["add", "mul"])
def test_broadcast_of_channels(kind: str) -> None:
    q = Quantized()
    x = q.data(6, 5, 7)
    one, many = q.conv(x, "one", 1, kernel=1, point=8), q.conv(x, "many", 10, kernel=1, point=5)
    q.op("both", kind, (6, 5, 10), [one, many])
    reasons = compile_and_check(q.done(q.fix("both", 4))).report.on_cpu
    assert f"DPU only supports {kind} of feature maps with the same channels" in reasons["both"]
    assert '"one" has [1, 6, 5, 1]' in reasons["both"]


def test_more_than_four_terms() -> None:
    q = Quantized()
    y = q.add(two(q, 5, 4, 6, 5, 3), "sum")
    reasons = compile_and_check(q.done(y)).report.on_cpu
    assert '"input_num"(5) up to 4' in reasons["sum"]


@pytest.mark.parametrize("kind", ["sub", "min", "max"])
def test_kinds_that_the_engine_does_not_have(kind: str) -> None:
    q = Quantized()
    q.op("both", kind, (6, 5, 10), two(q, 5, 4))
    reasons = compile_and_check(q.done(q.op("s", "sigmoid", (6, 5, 10), ["both"]))).report.on_cpu
    assert f"the DPU has no {kind}: the misc engine adds and multiplies" in reasons["both"]


def test_random_sums_and_products(rng: np.random.Generator) -> None:
    for _ in range(12):
        seed = int(rng.integers(1 << 30))
        q = Quantized(seed)
        pick = np.random.default_rng(seed)
        kind = str(pick.choice(["add", "mul"]))
        size = tuple(int(n) for n in pick.integers(1, 20, 3))
        count = 2 if kind == "mul" else int(pick.integers(2, 5))
        points = [int(p) for p in pick.integers(1, 7, count)]
        terms = two(q, *points, size=size)
        if pick.random() < 0.3:
            finer = points[0] + int(pick.integers(-2, 5)) if kind == "add" else 6
            terms = [terms[0], q.const("k", size[2], point=finer)]
        q.op("both", kind, size, terms)
        y = q.finish("both", int(pick.integers(1, 7)), "relu" if pick.random() < 0.5 else None)
        target = str(pick.choice(TARGETS))
        try:
            compiled = compile_and_check(q.done(y), target)
        except AssertionError as error:
            error.add_note(f"seed {seed}, {kind}, points {points}, target {target}")
            raise
        assert not compiled.report.on_cpu, seed
