# SPDX-License-Identifier: Apache-2.0
"""How transformers begin: patches of an image, a constant token in front, constant positions."""

import pytest
from graph_draws import Quantized, compile_and_check

from opendpu.ir import QuantizedGraph


@pytest.mark.parametrize("target", ["B64", "B512", "B4096"])
@pytest.mark.parametrize("patch,rows,columns", [(16, 3, 2), (16, 1, 5), (12, 2, 3), (14, 2, 2)])
def test_patches_wider_than_a_stride(patch: int, rows: int, columns: int, target: str) -> None:
    q = Quantized()
    x = q.data(rows * patch, columns * patch, 3)
    graph = q.done(q.conv(x, "patches", 20, kernel=patch, stride=patch, point=-1, act="relu"))
    compiled = compile_and_check(graph, target)
    assert not compiled.report.on_cpu


@pytest.mark.parametrize("height,width", [(33, 32), (32, 40)])
def test_patches_that_leave_pixels_are_the_cpus(height: int, width: int) -> None:
    q = Quantized()
    x = q.data(height, width, 3)
    compiled = compile_and_check(q.done(q.conv(x, "patches", 4, kernel=16, stride=16, point=-1)))
    assert next(iter(compiled.report.on_cpu)).startswith("patches")


@pytest.mark.parametrize("target", ["B64", "B4096"])
@pytest.mark.parametrize("axis", [1, 2, 3])
@pytest.mark.parametrize("first", [False, True])
def test_a_constant_beside_a_map(axis: int, target: str, *, first: bool) -> None:
    q = Quantized()
    x = q.conv(q.data(5, 7, 4), "c", 9, kernel=1, point=5)
    size, fixed = [5, 7, 9], [1, 5, 7, 9]
    fixed[axis] = 2
    size[axis - 1] += 2
    parts = [x, q.const("fixed", *fixed, point=5)]
    q.op("joined", "concat", tuple(size), parts[::-1] if first else parts, axis=axis)
    graph = q.done(q.conv(q.fix("joined", 5), "y", 3, kernel=1))
    assert not compile_and_check(graph, target).report.on_cpu


@pytest.mark.parametrize("point", [3, 5, 8])
@pytest.mark.parametrize("kind", ["add", "mul"])
@pytest.mark.parametrize("target", ["B64", "B4096"])
def test_a_constant_for_every_element(kind: str, point: int, target: str) -> None:
    q = Quantized()
    x = q.conv(q.data(5, 7, 4), "c", 9, kernel=1, point=5)
    q.op("sum", kind, (5, 7, 9), [x, q.const("fixed", 1, 5, 7, 9, point=point)])
    assert not compile_and_check(q.done(q.finish("sum", 4, "relu")), target).report.on_cpu


def tokens() -> QuantizedGraph:
    """Return patches, a token in front of them and positions, as rows of three axes."""
    q = Quantized()
    x = q.conv(q.data(32, 48, 3), "patches", 24, kernel=16, stride=16, point=-1)
    x = q.reshape(x, "rows", 6, 24, point=-1)
    q.op("joined", "concat", (7, 24), [q.const("token", 1, 1, 24, point=-1), x], axis=1)
    q.op("placed", "add", (7, 24), [q.fix("joined", -1), q.const("positions", 1, 7, 24, point=1)])
    return q.done(q.fix("placed", -1))


@pytest.mark.parametrize("target", ["B64", "B512", "B4096"])
def test_tokens(target: str) -> None:
    compiled = compile_and_check(tokens(), target)
    assert [part.device for part in compiled.report.subgraphs] == ["USER", "DPU"]
