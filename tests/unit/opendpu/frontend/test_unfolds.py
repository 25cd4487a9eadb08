# SPDX-License-Identifier: Apache-2.0
"""Sliding windows as ``torch.nn.Unfold`` is exported: gathered rows, then gathered columns."""

import numpy as np
import pytest
from test_feature_norms import kinds, parsed

SIZE = (1, 4, 7, 9)
BODY = """
    r = Gather <axis = 2> (x, rows)
    c = Gather <axis = 4> (r, columns)
    t = Transpose <perm = {perm}> (c)
    y = Reshape(t, shape)"""


def places(taps: int, size: int, stride: int = 1, dilation: int = 1) -> np.ndarray:
    windows = (size - dilation * (taps - 1) - 1) // stride + 1
    return np.arange(taps)[:, None] * dilation + np.arange(windows) * stride


def model(rows: np.ndarray, columns: np.ndarray, perm: str = "[0, 1, 2, 4, 3, 5]", body=BODY):
    shape = np.array([1, SIZE[1] * len(rows) * len(columns), -1])
    given = {"rows": rows, "columns": columns, "shape": shape}
    return parsed(body.format(perm=perm), SIZE, 17, **given)


@pytest.mark.parametrize(
    ("taps", "stride", "dilation"), [((3, 3), 1, 1), ((3, 2), 2, 1), ((2, 3), 1, 2), ((1, 7), 3, 1)]
)
def test_windows_are_a_convolution(taps, stride, dilation):
    at = [places(n, size, stride, dilation) for n, size in zip(taps, SIZE[2:], strict=True)]
    found = kinds(model(*at))
    assert found and set(found) <= {"conv2d", "depthwise-conv2d"}


ROWS, COLUMNS = places(3, 7), places(3, 9)
MISSES = {
    "a row is missing": (ROWS[:, :-1], COLUMNS),
    "rows go back": (ROWS[::-1], COLUMNS),
    "windows are far apart": (ROWS * np.array([1, 1, 1, 1, 0]), COLUMNS),
    "a kernel is wide": (ROWS, places(8, 9)),
}


@pytest.mark.parametrize("why", MISSES)
def test_other_places_stay(why):
    assert "onnx" in kinds(model(*MISSES[why]))


def test_another_reader_keeps_them():
    body = BODY.replace(
        "y = Reshape(t, shape)", "m = ReduceMax(r) s = Reshape(t, shape) y = Add(s, m)"
    )
    assert "onnx" in kinds(model(ROWS, COLUMNS, body=body))


def test_another_order_of_axes_is_no_convolution_of_patches():
    kinds(model(ROWS, COLUMNS, "[0, 1, 3, 5, 2, 4]"))
