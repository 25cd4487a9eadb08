# SPDX-License-Identifier: Apache-2.0
"""Spatial attention: the same function, one part of the DPU, and what stays as it is."""

import numpy as np
import pytest
from oracle import evaluate_float

from opendpu.ir import FloatGraph, to_xir
from opendpu.quantize import QuantizeConfig
from opendpu.quantize.transforms.spatial import attend
from opendpu_arch.target import Target

SHAPE = (1, 6, 5, 24)
THIN = (1, 6, 5, 1)
PIXEL = {"kernel": [1, 1], "stride": [1, 1], "pad": [0, 0, 0, 0], "pad_mode": "FLOOR"}
WIDE = {"kernel": [3, 3], "stride": [1, 1], "pad": [1, 1, 1, 1], "pad_mode": "FLOOR"}
CONFIG = QuantizeConfig()


def conv(graph, name, source, made, attrs=PIXEL):
    random = np.random.default_rng(ord(name[0]))
    taps = (made[-1], *attrs["kernel"], graph[source].shape[-1])
    weights = random.standard_normal(taps) / np.sqrt(np.prod(taps[1:]))
    inputs = {"input": [source], "weights": [graph.add_const(f"{name}_w", weights).name]}
    return graph.add(name, "conv2d", made, inputs, attrs).name


def network(kind, combining="mul", *, behind="hard-sigmoid"):
    """Return a map that is combined with what one number a pixel, made of it, becomes."""
    graph = FloatGraph("net")
    graph.add("x", "data", SHAPE)
    conv(graph, "a", "x", SHAPE)
    graph.add("r", "relu", SHAPE, {"input": ["a"]})
    if kind == "conv2d":
        conv(graph, "m", "r", THIN)
    else:
        graph.add("m", kind, THIN, {"input": ["r"]}, {"axis": [3], "keep_dims": True})
    conv(graph, "s", "m", THIN, WIDE)
    graph.add("g", behind, THIN, {"input": ["s"]})
    graph.add("y", combining, SHAPE, {"input": ["g", "r"] if combining == "add" else ["r", "g"]})
    graph.outputs = ["y"]
    return graph


def samples(count=8):
    random = np.random.default_rng(7)
    return {"x": random.standard_normal((count, *SHAPE[1:])).astype(np.float32)}


CASES = [
    ("reduction_mean", "mul"), ("reduction_sum", "mul"), ("reduction_max", "mul"),
    ("conv2d", "mul"), ("reduction_mean", "add"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "combining"), CASES)
def test_the_function_stays(kind, combining):
    graph = network(kind, combining)
    before = evaluate_float(graph, samples(1))["y"]
    assert attend(graph, CONFIG)
    to_xir(graph)
    np.testing.assert_allclose(evaluate_float(graph, samples(1))["y"], before, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("kind", "combining"), CASES)
def test_on_the_dpu(kind, combining, on_the_dpu):
    on_the_dpu(network(kind, combining), samples(), target="B512", least=24)


def outer_product():
    """Return numbers a pixel times numbers a channel, added to the map that both are made of."""
    graph = network("conv2d")
    size = [SHAPE[2], SHAPE[1]]
    pool = {"kernel": size, "stride": size, "pad": [0] * 4, "pad_mode": "FLOOR", "global": True}
    graph.add("c", "avgpool2d", (1, 1, 1, SHAPE[3]), {"input": ["a"]}, pool)
    graph.add("o", "mul", SHAPE, {"input": ["c", "g"]})
    graph["y"].kind, graph["y"].inputs = "add", {"input": ["r", "o"]}
    graph.sort()
    return graph


def test_an_outer_product_stays_the_function():
    graph = outer_product()
    before = evaluate_float(graph, samples(1))["y"]
    assert attend(graph, CONFIG)
    np.testing.assert_allclose(evaluate_float(graph, samples(1))["y"], before, rtol=1e-5, atol=1e-5)


def test_an_outer_product_on_the_dpu(on_the_dpu):
    on_the_dpu(outer_product(), samples(), target="B512", least=22)


def test_a_gate_of_the_cpu_is_repeated_on_the_dpu():
    graph = network("conv2d", behind="sigmoid")
    assert attend(graph, CONFIG)
    assert graph[graph["y"].inputs["input"][1]].inputs["input"] == ["g"]


def test_what_the_cpu_makes_of_the_numbers_keeps_them_there():
    graph = network("reduction_mean")
    graph["s"].kind, graph["s"].inputs, graph["s"].attrs = "sqrt", {"input": ["m"]}, {}
    graph.prune()
    assert attend(graph, CONFIG)
    assert graph["m"].kind == "reduction_mean"


@pytest.mark.parametrize(("target", "kind"), [("B512", "reduction_sum"), ("B512+table", "conv2d")])
def test_a_table_behind_a_sum_brings_it_to_the_dpu(target, kind):
    """Attention of PIDNet: the logistic function of a sum, with an axis less."""
    graph = network("reduction_sum")
    flat = {"shape": list(SHAPE[:3])}
    graph.add("flat", "reshape", SHAPE[:3], {"input": ["m"]}, flat)
    graph.add("h", "sigmoid", SHAPE[:3], {"input": ["flat"]})
    graph.add("gate", "reshape", THIN, {"input": ["h"]}, {"shape": list(THIN)})
    graph["y"].inputs["input"] = ["r", "gate"]
    graph.sort()
    graph.prune()
    assert attend(graph, QuantizeConfig(target=Target.from_name(target)))
    assert graph["m"].kind == kind


def test_means_of_other_axes_stay():
    graph = FloatGraph("net")
    graph.add("x", "data", SHAPE)
    conv(graph, "a", "x", SHAPE)
    axes = {"axis": [2], "keep_dims": True}
    graph.add("m", "reduction_mean", (1, 6, 1, 24), {"input": ["a"]}, axes)
    graph.outputs = [conv(graph, "y", "m", (1, 6, 1, 24))]
    assert not attend(graph, CONFIG)
