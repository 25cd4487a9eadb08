# SPDX-License-Identifier: Apache-2.0
"""Products of two feature maps, wherever their matrices are in DDR."""

import math

import pytest
from graph_draws import Quantized, compile_and_check

from opendpu.compiler.layers import ProductLayer
from opendpu.compiler.pipeline import Compiled, compile_with_report
from opendpu.compiler.plan import Plan
from opendpu_arch.target import Target

ROWS = {"transpose_a": False, "transpose_b": True}
"""Attributes of a product of rows with rows."""
COLUMNS = {"transpose_a": False, "transpose_b": False}


def _kinds(compiled: Compiled) -> list[str]:
    """Return the kinds of the ops that engines compute."""
    return [op.get_type() for op in compiled.graph.get_ops() if op.get_attr("device") == "DPU"]


def _maps(q: Quantized, *shapes: tuple[int, ...]) -> list[str]:
    """Return the results of convolutions, each in some shape of a batch of matrices."""
    made = []
    for number, shape in enumerate(shapes):
        x = q.data(1, math.prod(shape[:-1]), 6, name=f"x{number}")
        x = q.conv(x, f"c{number}", shape[-1], kernel=1, point=5)
        made.append(q.reshape(x, f"m{number}", *shape))
    return made


@pytest.mark.parametrize("target", ["B64", "B512", "B4096"])
@pytest.mark.parametrize("rows,others,inputs", [(17, 17, 16), (8, 33, 20), (1, 5, 3), (40, 1, 1)])
def test_rows_with_rows(rows: int, others: int, inputs: int, target: str) -> None:
    q = Quantized()
    factors = _maps(q, (rows, inputs), (others, inputs))
    q.op("mm", "matmul", (rows, others), factors, **ROWS)
    compiled = compile_and_check(q.done(q.fix("mm", 2)), target)
    assert not compiled.report.on_cpu
    assert _kinds(compiled).count("matmul-fix") == 1


@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize("target", ["B64", "B4096"])
def test_columns_become_rows(*, transpose_a: bool, transpose_b: bool, target: str) -> None:
    q = Quantized()
    one = (12, 10) if transpose_a else (10, 12)
    other = (9, 12) if transpose_b else (12, 9)
    factors = _maps(q, one, other)
    q.op("mm", "matmul", (10, 9), factors, transpose_a=transpose_a, transpose_b=transpose_b)
    compiled = compile_and_check(q.done(q.fix("mm", 2)), target)
    assert not compiled.report.on_cpu
    assert _kinds(compiled).count("matmul-fix") == 1 + transpose_a + (not transpose_b)


@pytest.mark.parametrize("act", ["relu", "relu6"])
def test_activations(act: str) -> None:
    q = Quantized()
    q.op("mm", "matmul", (12, 20), _maps(q, (12, 9), (20, 9)), **ROWS)
    assert not compile_and_check(q.done(q.finish("mm", 4, act))).report.on_cpu


@pytest.mark.parametrize("target", ["B64", "B4096"])
@pytest.mark.parametrize("side", [0, 1])
def test_constant_matrices_of_a_batch(side: int, target: str) -> None:
    q = Quantized()
    factors = _maps(q, (3, 7, 11))
    factors.insert(side, q.const("fixed", 3, 5, 11, point=6))
    size = (3, 5, 7) if side == 0 else (3, 7, 5)
    q.op("mm", "matmul", size, factors, **ROWS)
    assert not compile_and_check(q.done(q.fix("mm", 3)), target).report.on_cpu


def test_a_constant_times_columns() -> None:
    q = Quantized()
    (x,) = _maps(q, (12, 9))
    q.op("mm", "matmul", (7, 9), [q.const("fixed", 1, 7, 12, point=6), x], **COLUMNS)
    assert not compile_and_check(q.done(q.fix("mm", 3))).report.on_cpu


def test_a_feature_map_with_itself() -> None:
    q = Quantized()
    x = q.conv(q.data(4, 4, 5), "c", 16, kernel=3, pad=1, point=5)
    rows = q.reshape(x, "flat", 16, 16)
    q.op("mm", "matmul", (16, 16), [rows, rows], **ROWS)
    again = q.conv(x, "d", 8, point=3)
    assert not compile_and_check(q.done(q.fix("mm", 1), again)).report.on_cpu


@pytest.mark.parametrize("tokens", [64, 196])
def test_a_product_in_front_of_layers_that_get_more_rows(tokens: int) -> None:
    """One head: its scores are a feature map of their own, which the pass ``rows`` reshapes."""
    q = Quantized()
    q.op("mm", "matmul", (tokens, 16), _maps(q, (tokens, 12), (16, 12)), **ROWS)
    x = q.reshape(q.fix("mm", 3), "map", 1, tokens, 16, point=3)
    for number in range(3):
        x = q.conv(x, f"point{number}", 64, kernel=1, point=3)
    assert not compile_and_check(q.done(x), "B4096").report.on_cpu


@pytest.mark.parametrize("target", ["B64", "B512", "B4096"])
def test_batches_repeat_single_matrices(target: str) -> None:
    q = Quantized()
    q.op("mm", "matmul", (6, 7, 5), _maps(q, (6, 7, 11), (1, 5, 11)), **ROWS)
    compiled = compile_and_check(q.done(q.fix("mm", 2)), target)
    assert not compiled.report.on_cpu
    assert _kinds(compiled).count("matmul-fix") == 6


def attention(q: Quantized, tokens: int, heads: int, size: int) -> tuple[str, str]:
    """Return scores, and (as if they were weights) their products with values, as torch writes."""
    x = q.data(1, tokens, 24)
    x = q.conv(x, "qkv", 3 * heads * size, kernel=1, point=5)
    x = q.reshape(x, "split", tokens, 3, heads, size)
    q.op("moved", "transpose", (3, heads, tokens, size), [x], order=[0, 2, 3, 1, 4])
    x, parts = q.fix("moved", 5), []
    for number, name in enumerate(("query", "key", "value")):
        limits = {
            "begin": [0, number, 0, 0, 0], "end": [1, number + 1, heads, tokens, size],
            "strides": [1] * 5,
        }  # fmt: skip
        q.op(f"{name}_part", "strided_slice", (1, heads, tokens, size), [x], **limits)
        parts.append(q.reshape(q.fix(f"{name}_part", 5), name, heads, tokens, size))
    q.op("keys", "transpose", (heads, size, tokens), [parts[1]], order=[0, 1, 3, 2])
    q.op("scores", "matmul", (heads, tokens, tokens), [parts[0], q.fix("keys", 5)], **COLUMNS)
    scores = q.fix("scores", 1)
    q.op("mixed", "matmul", (heads, tokens, size), [scores, parts[2]], **COLUMNS)
    q.op("back", "transpose", (tokens, heads, size), [q.fix("mixed", 0)], order=[0, 2, 1, 3])
    x = q.reshape(q.fix("back", 0), "joined", 1, tokens, heads * size, point=0)
    return scores, q.conv(x, "out", 24, kernel=1, point=-1)


@pytest.mark.parametrize("target", ["B64", "B512", "B4096"])
def test_heads_are_channels_of_a_projection(target: str) -> None:
    q = Quantized()
    _, made = attention(q, tokens=17, heads=3, size=8)
    compiled = compile_and_check(q.done(made), target)
    assert not compiled.report.on_cpu
    # scores and mixtures of three heads, and the values of each by columns
    assert _kinds(compiled).count("matmul-fix") == 9
    assert _kinds(compiled).count("download") == 1


def test_operands_come_while_the_layer_before_computes() -> None:
    """Its words are not those of the layer before."""
    q = Quantized()
    plans: list[Plan] = []

    def passed(name: str, made: object) -> None:
        if isinstance(made, Plan):
            plans.append(made)

    graph = q.done(attention(q, tokens=50, heads=3, size=16)[1])
    compile_with_report(graph, Target.from_name("B4096"), passed=passed)
    (plan,) = plans
    products = [isinstance(placed.layer, ProductLayer) for placed in plan.layers]
    assert products.count(True) == 9
    for before, placed, is_product in zip(plan.layers, plan.layers[1:], products[1:], strict=False):
        if is_product:
            for one in (placed.sources[0], placed.output):
                for other in (before.sources[0], before.output):
                    apart = one.base >= other.base + other.words
                    apart |= other.base >= one.base + one.words
                    assert one.bank_group != other.bank_group or apart


def test_scores_that_are_needed_elsewhere() -> None:
    q = Quantized()
    assert not compile_and_check(q.done(*attention(q, 20, 2, 16))).report.on_cpu


def test_matrices_without_steps_are_copied_first() -> None:
    """Every other row, then rows as columns: no row of it is a run of bytes."""
    q = Quantized()
    (x,) = _maps(q, (6, 4, 8))
    q.op("moved", "transpose", (4, 6, 8), [x], order=[0, 2, 1, 3])
    x = q.reshape(q.fix("moved", 5), "flat", 1, 8, 24)
    q.op("mm", "matmul", (1, 8, 8), [x, x], **ROWS)
    compiled = compile_and_check(q.done(q.fix("mm", 1)))
    assert _kinds(compiled).count("matmul-fix") == 1
