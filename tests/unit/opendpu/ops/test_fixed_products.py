# SPDX-License-Identifier: Apache-2.0
"""Products of matrices on integers, against 64-bit sums and the contract's rounding."""

import numpy as np
import pytest

from opendpu.ir import FixedGraph, TensorType
from opendpu.ops.session import Session
from opendpu_arch import numerics


def _graph(one: np.ndarray, other: np.ndarray, point: int, nonlinear: str) -> FixedGraph:
    graph = FixedGraph("product")
    for name, values, fix_point in (("a", one, 5), ("b", other, 4)):
        graph.add(name, "data-fix", TensorType.int8(values.shape, fix_point))
    shape = (1, 1, one.shape[2], other.shape[2])
    attrs = {"transpose_a": False, "transpose_b": True, "nonlinear": nonlinear}
    graph.add("y", "matmul-fix", TensorType.int8(shape, point), {"input": ["a", "b"]}, attrs)
    graph.outputs = ["y"]
    return graph


@pytest.mark.parametrize("nonlinear", ["NONE", "RELU", "RELU6"])
@pytest.mark.parametrize(("terms", "point"), [(1, 9), (7, 4), (1024, -3), (1025, -3), (4000, -9)])
def test_sums_that_float32_holds_and_others(
    rng: np.random.Generator, terms: int, point: int, nonlinear: str
) -> None:
    one, other = (rng.integers(-128, 128, (1, 1, n, terms), np.int8) for n in (5, 6))
    one[0, 0, 0], other[0, 0, 0] = -128, -128  # the largest sum there is
    one[0, 0, 1], other[0, 0, 1] = 127, -127
    other[0, 0, 1, 0] = -126  # and an odd one
    session = Session(_graph(one, other, point, nonlinear), keep=["y"])
    found = session.run({"a": one, "b": other})["y"]
    total = one[0, 0].astype(np.int64) @ other[0, 0].astype(np.int64).T
    if nonlinear != "NONE":
        total = np.maximum(total, 0)
    wanted = numerics.saturate(numerics.shift_round(total, 5 + 4 - point))
    if nonlinear == "RELU6":
        wanted = np.minimum(wanted, numerics.RELU6_MAX)
    np.testing.assert_array_equal(found[0, 0], wanted)
