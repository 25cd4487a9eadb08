# SPDX-License-Identifier: Apache-2.0
"""Nodes that change nothing go before anything is searched for; all others stay."""

import numpy as np
import pytest
from onnx_text import compare, parse

CONSTANTS = """int64[2] same = {6, 8}, int64[3] deep = {1, 6, 8}, int64[2] turned = {8, 6},
  int64[2] ones = {1, 1}, int64[4] none = {0, 0, 0, 0}, int64[4] shifts = {1, 0, -1, 0},
  int64[1] zero = {0}, int64[1] two = {2}"""


def left(body: str, rng: np.random.Generator) -> list[str]:
    """Return what moves data between the input ``x`` and the result ``y``, compared."""
    text = f"g (float[6, 8] x) => (float[6, 8] y) <{CONSTANTS}> {{ {body} }}"
    graph = compare(parse(text, opset=18), rng)
    return [n.kind for n in graph if n.kind not in ("data", "const", "relu")]


@pytest.mark.parametrize(
    "body",
    [
        "a = Relu (x)  b = Reshape (a, same)  y = Relu (b)",
        "a = Relu (x)  b = Reshape (a, deep)  c = Squeeze (b, zero)  y = Relu (c)",
        "a = Relu (x)  b = Unsqueeze (a, zero)  c = Unsqueeze (b, two)  "
        "d = Transpose <perm = [1, 2, 0, 3]> (c)  e = Reshape (d, same)  y = Relu (e)",
        "a = Relu (x)  b = Expand (a, same)  y = Relu (b)",
        "a = Relu (x)  b = Tile (a, ones)  y = Relu (b)",
        "a = Relu (x)  b = Pad (a, none)  y = Relu (b)",
        "a = Relu (x)  b = Transpose <perm = [0, 1]> (a)  y = Relu (b)",
    ],
)
def test_what_changes_nothing_goes(body: str, rng: np.random.Generator) -> None:
    assert left(body, rng) == []


def test_what_keeps_only_the_shape_stays(rng: np.random.Generator) -> None:
    """Rows that move by one, and a square that is turned over."""
    assert left("a = Relu (x)  b = Pad (a, shifts)  y = Relu (b)", rng)
    text = "g (float[6, 6] x) => (float[6, 6] y) { a = Relu (x)  b = Transpose (a)  y = Relu (b) }"
    kinds = [node.kind for node in compare(parse(text), rng)]
    assert "transpose" in kinds


def test_tensors_between_that_others_read_stay(rng: np.random.Generator) -> None:
    kinds = left(
        "a = Relu (x)  b = Reshape (a, turned)  c = Reshape (b, same)  "
        "d = Transpose (b)  e = Relu (c)  y = Add (d, e)", rng,
    )  # fmt: skip
    assert sorted(kinds) == ["add", "reshape", "transpose"]


def test_an_output_keeps_its_name(rng: np.random.Generator) -> None:
    graph = compare(
        parse(f"""g (float[6, 8] x) => (float[6, 8] y, float[6, 8] z) <{CONSTANTS}>
              {{ a = Relu (x)  y = Reshape (a, same)  z = Sigmoid (y) }}"""),
        rng,
    )
    assert graph.outputs == ["y", "z"]
