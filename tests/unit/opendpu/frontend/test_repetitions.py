# SPDX-License-Identifier: Apache-2.0
"""Expand and Tile whose readers repeat their operands anyway, and those that make something new."""

import numpy as np
import pytest
from test_feature_norms import kinds, parsed

SIZE = (1, 4, 5, 6)
ARRAYS = {
    "at": np.int64([2]), "to": np.int64([1, 4, 5, 6]), "rows": np.int64([1, 1, 5, 1]),
    "two": np.float32(2),
}  # fmt: skip
COLUMN = "m = ReduceMean <axes = [2], keepdims = 1> (x)"


@pytest.mark.parametrize(
    "text",
    [
        f"{COLUMN} e = Expand(m, to) y = Mul(x, e)",
        f"{COLUMN} e = Tile(m, rows) y = Sub(e, x)",
        f"{COLUMN} e = Tile(m, rows) f = Relu(x) g = Div(x, two) y = Max(f, e, g)",
        f"{COLUMN} d = Tile(m, rows) e = Expand(m, to) f = Add(x, d) y = Add(e, f)",
    ],
)
def test_what_is_repeated_anyway_is_not_copied(text):
    found = kinds(parsed(text, SIZE, 17, **ARRAYS))
    assert not {"onnx", "concat"} & {*found}, found


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (f"{COLUMN} e = Expand(m, to) y = Relu(e)", "its size is the result's"),
        (f"{COLUMN} e = Expand(m, to) f = Expand(m, to) y = Add(e, f)", "both repeat"),
        (f"{COLUMN} e = Expand(m, to) f = Relu(e) g = Mul(e, x) y = Add(f, g)", "another reads it"),
    ],
)
def test_what_makes_something_new_stays(text, why):
    found = kinds(parsed(text, SIZE, 17, **ARRAYS))
    assert "concat" in found, why
