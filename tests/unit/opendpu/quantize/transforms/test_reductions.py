# SPDX-License-Identifier: Apache-2.0
"""Sums, means and maxima over pixels, tokens and inner axes: the same function, on the DPU."""

import numpy as np
import pytest

from opendpu.ir import FloatGraph
from opendpu.ops.session import Session
from opendpu.quantize.transforms.reductions import reduce_pixels

PIXEL = {"kernel": [1, 1], "stride": [1, 1], "pad": [0, 0, 0, 0], "pad_mode": "FLOOR"}
CHANNELS = 16


def conv(graph: FloatGraph, name: str, source: str) -> str:
    random = np.random.default_rng(ord(name[0]))
    weights = random.standard_normal((CHANNELS, 1, 1, CHANNELS)) / np.sqrt(CHANNELS)
    inputs = {"input": [source], "weights": [graph.add_const(f"{name}_w", weights).name]}
    return graph.add(name, "conv2d", graph[source].shape, inputs, PIXEL).name


def network(kind: str, shape: tuple[int, ...], axes: list[int]) -> FloatGraph:
    """Return a reduction of a map that is seen with the axes of ``shape``, between two layers."""
    graph = FloatGraph("net")
    pixels = int(np.prod(shape[1:-1]))
    graph.add("x", "data", (1, 1, pixels, CHANNELS))
    seen = graph.add(
        "seen", "reshape", shape, {"input": [conv(graph, "a", "x")]}, {"shape": list(shape)}
    )
    made = tuple(1 if axis in axes else size for axis, size in enumerate(shape))
    attrs = {"axis": axes, "keep_dims": True}
    graph.add("r", kind, made, {"input": [seen.name]}, attrs)
    left = [1, 1, int(np.prod(made[1:-1])), CHANNELS]
    graph.add("flat", "reshape", tuple(left), {"input": ["r"]}, {"shape": left})
    graph.outputs = [conv(graph, "y", "flat")]
    return graph


CASES = [
    ("reduction_sum", (1, 6, 5, CHANNELS), [1, 2]),
    ("reduction_sum", (1, 20, CHANNELS), [1]),
    ("reduction_mean", (1, 576, CHANNELS), [1]),  # a ViT's mean of more tokens than a window has
    ("reduction_max", (1, 4, 2, 3, 5, CHANNELS), [1]),  # Hiera's queries
    ("reduction_sum", (1, 2, 3, 5, CHANNELS), [3]),
    ("reduction_sum", (1, 2, 3, 11, CHANNELS), [3]),
    ("reduction_sum", (1, 2, CHANNELS), [1]),
    ("reduction_mean", (1, 2, 4, 3, 5, CHANNELS), [2, 3]),
]


@pytest.mark.parametrize(("kind", "shape", "axes"), CASES)
def test_the_same_function_on_the_dpu(kind, shape, axes, rng, on_the_dpu):
    graph = network(kind, shape, axes)
    pixels = graph["x"].shape[2]
    given = {"x": rng.standard_normal((8, 1, pixels, CHANNELS)).astype(np.float32)}
    before = Session(graph).run({"x": given["x"][:1]})["y"]
    rewritten = graph.copy()
    reduce_pixels(rewritten, sums=True)
    after = Session(rewritten).run({"x": given["x"][:1]})["y"]
    np.testing.assert_allclose(after, before, rtol=1e-4, atol=1e-4)
    on_the_dpu(rewritten, given, target="B512", least=24)


@pytest.mark.parametrize(
    ("shape", "axes"), [((1, 6, 5, CHANNELS), [3]), ((1, 6, 5, CHANNELS), [2, 3]), ((2, 9), [0])]
)
def test_other_axes_stay(shape, axes):
    graph = FloatGraph("net")
    graph.add("x", "data", shape)
    made = tuple(1 if axis in axes else size for axis, size in enumerate(shape))
    graph.add("y", "reduction_sum", made, {"input": ["x"]}, {"axis": axes, "keep_dims": True})
    graph.outputs = ["y"]
    reduce_pixels(graph, sums=True)
    assert graph["y"].kind == "reduction_sum"


def test_sums_of_many_parts_stay_where_modules_round_them():
    """Training rounds the result of a module, and no mean that is inside of it."""
    graph = network("reduction_sum", (1, 20, CHANNELS), [1])
    reduce_pixels(graph, sums=False)
    assert graph["r"].kind == "reduction_sum"
