# SPDX-License-Identifier: Apache-2.0
"""Repeated pixels, as Keras 3, PyTorch and numpy write them, are one resize; others stay."""

import numpy as np
import pytest
from onnx_text import compare, parse

CONSTANTS = """int64[1] two = {2}, int64[1] three = {3}, int64[1] four = {4},
  int64[5] rows = {1, 1, 2, 1, 1}, int64[5] columns = {1, 1, 1, 3, 1},
  int64[4] tall = {1, 8, 3, 2}, int64[4] large = {1, 8, 9, 2},
  int64[6] apart = {1, 4, 1, 3, 1, 2}, int64[6] both = {1, 1, 2, 1, 3, 1},
  int64[5] first = {1, 4, 1, 3, 2}, int64[6] grown = {1, 4, 2, 3, 3, 2},
  int64[4] whole = {1, 2, 3, 1}"""
ROWS = "a = Unsqueeze (x, two)  b = Tile (a, rows)  tall_one = Reshape (b, tall)"
COLUMNS = "c = Unsqueeze (tall_one, three)  d = Tile (c, columns)  y = Reshape (d, large)"


def converted(body: str, rng: np.random.Generator, out: str = "1, 8, 9, 2"):
    """Return the graph of a body between the input ``x`` and the result ``y``, compared."""
    text = f"g (float[1, 4, 3, 2] given) => (float[{out}] result) <{CONSTANTS}>"
    model = parse(f"{text} {{ x = Abs (given) {body} result = Relu (y) }}", opset=18)
    return compare(model, rng)


def resizes(graph) -> list[list[float]]:
    return [node.attrs["scale"] for node in graph if node.kind == "resize"]


@pytest.mark.parametrize(
    "body",
    [
        f"{ROWS} {COLUMNS}",
        f"{ROWS} {COLUMNS}".replace("Unsqueeze (x, two)", "Reshape (x, first)"),
        "a = Reshape (x, apart)  b = Tile (a, both)  y = Reshape (b, large)",
        "a = Reshape (x, apart)  b = Expand (a, grown)  y = Reshape (b, large)",
        "u = Unsqueeze (x, two)  a = Unsqueeze (u, four)  b = Expand (a, grown) "
        "y = Reshape (b, large)",
    ],
)
def test_rows_and_columns_with_channels_last(body, rng):
    graph = converted(body, rng)
    assert resizes(graph) == [[3.0, 2.0]]
    assert sum(node.kind == "onnx" for node in graph) == 1  # Abs


def test_rows_and_columns_with_channels_first(rng):
    """``repeat_interleave`` of dimensions 2 and 3."""
    text = """g (float[1, 5, 4, 3] x) => (float[1, 5, 8, 9] y)
      <int64[6] apart = {1, 5, 4, 1, 3, 1}, int64[6] both = {1, 1, 1, 2, 1, 3},
       int64[4] large = {1, 5, 8, 9}>
      { a = Reshape (x, apart)  b = Tile (a, both)  y = Reshape (b, large) }"""
    assert resizes(compare(parse(text, opset=18), rng)) == [[3.0, 2.0]]


def test_a_transposition_between_follows(rng):
    """Rows are repeated with channels in front, columns with channels last (tf2onnx)."""
    text = """g (float[1, 5, 4, 3] x) => (float[1, 8, 9, 5] y)
      <int64[1] three = {3}, int64[5] rows = {1, 1, 1, 2, 1}, int64[4] tall = {1, 8, 3, 5},
       int64[5] columns = {1, 1, 1, 3, 1}, int64[4] large = {1, 8, 9, 5}>
      { a = Unsqueeze (x, three)  b = Tile (a, rows)
        c = Transpose <perm = [0, 2, 3, 4, 1]> (b)  d = Reshape (c, tall)
        e = Unsqueeze (d, three)  f = Tile (e, columns)  y = Reshape (f, large) }"""
    assert resizes(compare(parse(text, opset=18), rng)) == [[3.0, 2.0]]
    apart = text.replace("[0, 2, 3, 4, 1]", "[0, 3, 2, 4, 1]")  # rows, then their repetitions
    assert resizes(compare(parse(apart, opset=18), rng)) == []


@pytest.mark.parametrize("reader", ["z = Add (c, c)", "z = DepthToSpace <blocksize = 2> (c)"])
def test_channels_of_a_map_are_a_convolution(reader, rng):
    text = """g (float[1, 3, 4, 5] x) => (float[{out}] z)
      <int64[1] two = {{2}}, int64[5] times = {{1, 1, 4, 1, 1}}, int64[4] all = {{1, 12, 4, 5}}>
      {{ a = Unsqueeze (x, two)  b = Tile (a, times)  c = Reshape (b, all)  {reader} }}"""
    out = "1, 12, 4, 5" if "Add" in reader else "1, 3, 8, 10"
    graph = compare(parse(text.format(reader=reader, out=out), opset=18), rng)
    assert sum(node.kind == "conv2d" for node in graph) == 1
    assert "tile" not in {node.kind for node in graph}


def test_heads_that_are_repeated_for_a_product_are_no_convolution(rng):
    text = """g (float[1, 2, 4, 5] x) => (float[1, 6, 4, 4] z)
      <int64[1] two = {2}, int64[5] times = {1, 1, 3, 1, 1}, int64[4] all = {1, 6, 4, 5}>
      { a = Unsqueeze (x, two)  b = Tile (a, times)  c = Reshape (b, all)
        d = Transpose <perm = [0, 1, 3, 2]> (c)  z = MatMul (c, d) }"""
    graph = compare(parse(text, opset=18), rng)
    assert "conv2d" not in {node.kind for node in graph}


@pytest.mark.parametrize(
    ("body", "out"),
    [
        (f"{ROWS} y = Identity (tall_one)", "1, 8, 3, 2"),  # rows, or channels
        (f"{ROWS} {COLUMNS.replace('y =', 'e =')} m = ReduceMax (b)  y = Add (e, m)",
         "1, 8, 9, 2"),  # a reader between
        ("y = Tile (x, whole)", "1, 8, 9, 2"),  # maps side by side
    ],
)  # fmt: skip
def test_what_stays(body, out, rng):
    assert resizes(converted(body, rng, out)) == []
