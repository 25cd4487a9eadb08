# SPDX-License-Identifier: Apache-2.0
"""Decomposed positions of attention: sums of six axes, some of whose terms repeat."""

import numpy as np
import pytest

from opendpu.api import compile_graph
from opendpu.ir import FloatGraph, Graph
from opendpu.ops.session import Session
from opendpu.quantize import QuantizeConfig, quantize
from opendpu.quantize.transforms.repeat import repeat
from opendpu_arch.target import Target

HEADS, ROWS, COLUMNS = 3, 4, 5
PLACES = ROWS * COLUMNS
WHOLE = (1, HEADS, ROWS, COLUMNS, ROWS, COLUMNS)


def product(graph: Graph, name: str, source: str, outputs: int) -> str:
    """Add a product with random weights."""
    count = graph[source].shape[-1]
    weights = np.random.default_rng(len(name)).standard_normal((count, outputs)) / np.sqrt(count)
    given = [source, graph.add_const(f"{name}_w", weights.astype(np.float32)).name]
    attrs = {"transpose_a": False, "transpose_b": False}
    return graph.add(
        name, "matmul", (*graph[source].shape[:-1], outputs), {"input": given}, attrs
    ).name


def reshaped(graph: Graph, name: str, source: str, shape: tuple[int, ...]) -> str:
    return graph.add(name, "reshape", shape, {"input": [source]}, {"shape": list(shape)}).name


def network(kind: str = "add", order: str = "scores, row, col") -> FloatGraph:
    """Return scores that get numbers for each row and column of the keys, and a product behind."""
    graph = FloatGraph("positions")
    graph.add("x", "data", (1, HEADS, PLACES, 16))
    shapes = {"scores": WHOLE, "row": (*WHOLE[:5], 1), "col": (*WHOLE[:4], 1, COLUMNS)}
    made = []
    for name in order.split(", "):
        source = product(graph, name, "x", int(np.prod(shapes[name][4:])))
        made.append(reshaped(graph, f"{name}_6", source, shapes[name]))
    first = graph.add("first", kind, WHOLE, {"input": made[:2]}).name
    second = graph.add("second", kind, WHOLE, {"input": [first, made[2]]}).name
    flat = reshaped(graph, "flat", second, (1, HEADS, PLACES, PLACES))
    graph.outputs = [product(graph, "y", flat, 8)]
    return graph


def computed(graph: Graph, values: np.ndarray) -> np.ndarray:
    (found,) = Session(graph, keep=graph.outputs, batched=True).run({"x": values}).values()
    return np.asarray(found)


@pytest.mark.parametrize("order", ["scores, row, col", "row, col, scores"])
@pytest.mark.parametrize(("kind", "operations"), [("add", 1), ("mul", 2)])
def test_it_is_the_same_in_float(
    rng: np.random.Generator, kind: str, operations: int, order: str
) -> None:
    """ViTDet adds to scores, SAM what it adds to scores before."""
    graph = network(kind, order)
    values = rng.standard_normal((2, HEADS, PLACES, 16)).astype(np.float32)
    wanted = computed(graph, values)
    repeat(graph)
    left = [node for node in graph if node.kind == kind]
    assert len(left) == operations
    for node in left:
        assert len(node.shape) == 4 or {graph[name].shape for name in node.sources()} == {WHOLE}
    np.testing.assert_allclose(computed(graph, values), wanted, rtol=1e-4, atol=1e-4)


def test_constants_are_added_on_their_own(rng: np.random.Generator) -> None:
    """A bias and a mask of windows: the DPU adds one constant at a time."""
    graph = FloatGraph("windows")
    graph.add("x", "data", WHOLE)
    for name, source in {"bias": "x", "mask": "bias"}.items():
        constant = graph.add_const(f"{name}_c", rng.standard_normal(WHOLE).astype(np.float32)).name
        graph.add(name, "add", WHOLE, {"input": [source, constant]})
    graph.outputs = ["mask"]
    repeat(graph)
    assert [node.kind for node in graph].count("add") == 2


def test_one_part_of_the_dpu(rng: np.random.Generator) -> None:
    values = rng.standard_normal((4, HEADS, PLACES, 16)).astype(np.float32)
    config = QuantizeConfig(target=Target.from_name("B512+table"))
    compiled = compile_graph(quantize(network(), {"x": values}, config), target="B512+table")
    assert [part.device for part in compiled.report.subgraphs] == ["USER", "DPU"]


@pytest.mark.parametrize("kind", ["add", "mul"])
def test_what_repeats_for_every_pixel_is_one_pixel(rng: np.random.Generator, kind: str) -> None:
    """A number a channel for each of two maps, SKNet's choice between kernels."""
    size, whole = (1, 4, 5, 16), (1, 4, 5, 2, 8)
    graph = FloatGraph("maps")
    graph.add("x", "data", size)
    maps = reshaped(graph, "maps", product(graph, "m", "x", 16), whole)
    window = {"kernel": [5, 4], "stride": [5, 4], "pad": [0] * 4, "pad_mode": "FLOOR"}
    mean = graph.add("mean", "avgpool2d", (1, 1, 1, 16), {"input": ["x"]}, window).name
    chosen = reshaped(graph, "chosen", product(graph, "c", mean, 16), (1, 1, 1, 2, 8))
    both = graph.add("both", kind, whole, {"input": [maps, chosen]}).name
    graph.outputs = [product(graph, "y", reshaped(graph, "flat", both, size), 4)]
    values = rng.standard_normal((4, *size[1:])).astype(np.float32)
    wanted = computed(graph, values)
    rewritten = graph.copy()
    repeat(rewritten)
    assert {node.shape for node in rewritten if node.kind == kind} == {size}
    np.testing.assert_allclose(computed(rewritten, values), wanted, rtol=1e-4, atol=1e-4)
    config = QuantizeConfig(target=Target.from_name("B512+table"))
    compiled = compile_graph(quantize(graph, {"x": values}, config), target="B512+table")
    assert [part.device for part in compiled.report.subgraphs] == ["USER", "DPU"]
