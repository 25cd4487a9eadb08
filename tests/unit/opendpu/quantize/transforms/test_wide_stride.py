# SPDX-License-Identifier: Apache-2.0
"""Strides of more than 8 pixels: the same sums, of blocks of pixels."""

import numpy as np
import pytest
from oracle import evaluate_float

from opendpu.ir import FloatGraph
from opendpu.quantize.transforms.wide_stride import split_wide_strides

POINT = {"kernel": [1, 1], "stride": [1, 1], "pad": [0, 0, 0, 0], "pad_mode": "FLOOR"}


def network(size, channels, kernel, *, stride, pad=(0, 0, 0, 0), mode="FLOOR", group=1):
    """A small convolution, and one with steps; all pairs are rows and columns."""
    rng = np.random.default_rng(3)
    net = FloatGraph("wide")
    net.add("x", "data", (1, *size, channels))
    net.add_const("a_w", rng.standard_normal((channels, 1, 1, channels)))
    net.add("a", "conv2d", (1, *size, channels), {"input": ["x"], "weights": ["a_w"]}, POINT)
    padded = [size[0] + pad[2] + pad[3], size[1] + pad[0] + pad[1]]
    made = [(n - k) // s + 1 for n, k, s in zip(padded, kernel, stride, strict=True)]
    if mode == "SAME":
        made = [-(-n // s) for n, s in zip(size, stride, strict=True)]
    each = channels // group
    weights = rng.standard_normal((6 * group, *kernel, each)) / np.sqrt(np.prod(kernel) * each)
    net.add_const("b_w", weights)
    net.add_const("b_b", rng.standard_normal(6 * group))
    attrs = {"kernel": list(kernel[::-1]), "stride": list(stride[::-1]), "pad": list(pad),
             "dilation": [1, 1], "pad_mode": mode, "group": group}  # fmt: skip
    inputs = {"input": ["a"], "weights": ["b_w"], "bias": ["b_b"]}
    net.add("y", "conv2d", (1, *made, 6 * group), inputs, attrs)
    net.outputs = ["y"]
    return net


CASES = {
    "patches of a spectrum": network((40, 66), 1, (16, 16), stride=(10, 10)),
    "padded": network((31, 40), 3, (7, 11), stride=(9, 12), pad=[3, 2, 1, 5]),
    "other strides": network((60, 33), 2, (16, 5), stride=(16, 4), pad=[1, 1, 0, 0]),
    "gaps": network((50, 47), 4, (3, 3), stride=(10, 10)),
    "same": network((41, 39), 3, (12, 12), stride=(10, 10), mode="SAME"),
    "rounded up": network((45, 37), 3, (11, 11), stride=(9, 9)),
}


@pytest.mark.parametrize("case", CASES)
def test_the_same_in_float(case):
    graph = CASES[case].copy()
    rng = np.random.default_rng(3)
    x = {"x": rng.standard_normal(graph["x"].shape).astype(np.float32)}
    before = evaluate_float(graph, x)["y"]
    assert split_wide_strides(graph) == 1
    assert max(graph["y"].attrs["stride"]) <= 8
    np.testing.assert_allclose(evaluate_float(graph, x)["y"], before, atol=1e-4)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("target", ["B512", "B4096"])
def test_on_the_dpu(case, target, on_the_dpu):
    graph = CASES[case].copy()
    x = np.random.default_rng(4).standard_normal((4, *graph["x"].shape[1:])).astype(np.float32)
    on_the_dpu(graph, {"x": x}, target=target, least=26)


@pytest.mark.parametrize(
    "graph",
    [
        network((32, 32), 3, (16, 16), stride=(16, 16)),
        network((32, 32), 3, (16, 16), stride=(8, 8)),
        network((50, 50), 3, (11, 11), stride=(11, 10)),
        network((50, 50), 4, (11, 11), stride=(10, 10), group=2),
    ],
    ids=["patches side by side", "small enough", "no common block", "groups"],
)
def test_what_stays(graph):
    graph = graph.copy()
    assert split_wide_strides(graph) == 0
