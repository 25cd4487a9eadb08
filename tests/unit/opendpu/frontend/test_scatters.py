# SPDX-License-Identifier: Apache-2.0
"""Assignments to some channels, rows or columns: ``ScatterND`` with constant places."""

import numpy as np
import pytest
from test_feature_norms import kinds, parsed
from test_multiplied_norms import labels

SIZE = (1, 6, 5, 4)
BODY = """
    n = Slice(x, start, end, axis)
    m = Neg(n)
    y = ScatterND {attributes} (x, at, m)"""


def places(first: tuple[int, ...], shape: tuple[int, ...]) -> np.ndarray:
    """Return the index of each element of a box, of as many axes as there are numbers."""
    every = np.meshgrid(*map(np.arange, shape), indexing="ij")
    return np.stack(every, axis=-1) + np.array(first)


def model(axis: int, start: int, end: int, count: int = 4, attributes: str = "", at=None):
    first = [start if n == axis else 0 for n in range(count)]
    shape = [end - start if n == axis else size for n, size in enumerate(SIZE)]
    given = {"start": start, "end": end, "axis": axis}
    arrays = {name: np.array([value]) for name, value in given.items()}
    arrays["at"] = places(tuple(first), tuple(shape[:count])) if at is None else at
    return parsed(BODY.format(attributes=attributes), SIZE, 18, **arrays)


@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize(("start", "end"), [(0, 2), (4, 6), (1, 3)])
def test_channels_are_put_in_their_place(start, end, count):
    proto = model(1, start, end, count)
    assert "ScatterND" not in labels(proto)
    assert "concat" in kinds(proto)


@pytest.mark.parametrize("axis", [2, 3])
def test_rows_and_columns_are(axis):
    proto = model(axis, 1, 3)
    assert "ScatterND" not in labels(proto)
    kinds(proto)


def test_places_from_the_end_are():
    proto = model(1, 4, 6, 2, at=places((0, 4), (1, 2)) - np.array([0, 6]))
    assert "ScatterND" not in labels(proto)
    kinds(proto)


@pytest.mark.parametrize("why", ["other order", "steps", "sums"])
def test_others_stay(why):
    at = places((0, 1), (1, 2))
    match why:
        case "other order":
            at = at[:, ::-1]
        case "steps":
            at = at * np.array([1, 2])
    proto = model(1, 1, 3, 2, '<reduction = "add">' if why == "sums" else "", at)
    assert "ScatterND" in labels(proto)
    kinds(proto)
