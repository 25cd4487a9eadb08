# SPDX-License-Identifier: Apache-2.0
"""Inner products and matrices as convolutions."""

import math

import pytest
from graph_draws import Quantized, compile_and_check


@pytest.mark.parametrize("act", [None, "relu"])
@pytest.mark.parametrize("target", ["B64", "B4096"])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("shape", [(6, 20), (20,), (3, 5, 20), (2, 3, 5, 20)])
def test_matmul(shape: tuple[int, ...], transposed: bool, target: str, act: str | None) -> None:
    q = Quantized()
    x = q.data(math.prod(shape[:-1]), 1, 20)
    if shape != (math.prod(shape[:-1]), 1, 20):
        x = q.reshape(q.conv(x, "c", 20, kernel=1, point=5), "flat", *shape)
    weights = q.const("w", *((7, 20) if transposed else (20, 7)), point=8)
    attrs = {"transpose_a": False, "transpose_b": transposed}
    q.op("mm", "matmul", (*shape[:-1], 7), [x, weights], **attrs)
    y = q.finish("mm", 3, act)
    assert not compile_and_check(q.done(y), target).report.on_cpu


def test_matmul_with_a_bias() -> None:
    q = Quantized()
    x = q.reshape(q.conv(q.data(4, 3, 5), "c", 20, kernel=1, point=5), "flat", 12, 20)
    given = {"input": [x, q.const("w", 20, 7, point=8)], "bias": [q.const("b", 7, point=6)]}
    attrs = {"transpose_a": False, "transpose_b": False}
    q.graph.add("mm", "matmul", (1, 12, 7), given, attrs)
    assert not compile_and_check(q.done(q.fix("mm", 3))).report.on_cpu


@pytest.mark.parametrize("wrong", ["bias", "leaky-relu"])
def test_matmul_that_stays_on_the_cpu(wrong: str) -> None:
    q = Quantized()
    x = q.reshape(q.conv(q.data(4, 4, 5), "c", 16, kernel=1, point=5), "flat", 16, 16)
    given = {"input": [x, x]}
    if wrong == "bias":
        given["bias"] = [q.const("b", 16)]
    q.graph.add("mm", "matmul", (1, 16, 16), given, {"transpose_a": False, "transpose_b": False})
    last = "mm"
    if wrong == "leaky-relu":
        last = q.op("leaky", wrong, (16, 16), ["mm"], alpha=26 / 256)
    made = q.fix(last, 1)
    reasons = compile_and_check(q.done(made)).report.on_cpu
    limit = "DPU only supports matmul of two feature maps without bias and with one of NONE, RELU"
    assert limit in reasons["mm"]


def test_inner_product_of_many_rows() -> None:
    q = Quantized()
    x = q.reshape(q.conv(q.data(4, 3, 5), "c", 20, kernel=1, point=5), "flat", 12, 20)
    given = {"input": [x], "weights": [q.const("w", 7, 20, point=8)]}
    q.graph.add("ip", "inner-product", (1, 12, 7), given, {"axis": 2})
    assert not compile_and_check(q.done(q.fix("ip", 3))).report.on_cpu


def test_inner_product_over_two_axes() -> None:
    q = Quantized()
    x = q.reshape(q.conv(q.data(4, 3, 5), "c", 20, kernel=1, point=5), "flat", 12, 20)
    given = {"input": [x], "weights": [q.const("w", 7, 240, point=8)]}
    q.graph.add("ip", "inner-product", (1, 7), given, {"axis": 1})
    reasons = compile_and_check(q.done(q.fix("ip", 3))).report.on_cpu
    assert "inner-product over the last axis" in reasons["ip"]
