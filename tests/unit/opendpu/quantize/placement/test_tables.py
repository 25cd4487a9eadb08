# SPDX-License-Identifier: Apache-2.0
"""What is quantized for a target that has functions of one value as tables."""

import numpy as np
import pytest

from opendpu.ir import FloatGraph
from opendpu.quantize import quantize
from opendpu.quantize.config import QuantizeConfig
from opendpu.quantize.placement.place import place
from opendpu.quantize.placement.tables import tabulated
from opendpu_arch.target import Target

PLAIN, TABLES = (QuantizeConfig(target=Target.from_name(n)) for n in ("B512", "B512+table"))


def conv(graph: FloatGraph, source: str, name: str) -> str:
    """Add a convolution of eight channels."""
    rng = np.random.default_rng(len(name))
    inputs = graph[source].shape[-1]
    weights = rng.normal(0, 0.3, (8, 3, 3, inputs)).astype(np.float32)
    graph.add(f"{name}_w", "const", weights.shape, value=weights)
    attrs = {"kernel": [3, 3], "stride": [1, 1], "pad": [1] * 4, "pad_mode": "FLOOR"}
    given = {"input": [source], "weights": [f"{name}_w"]}
    return graph.add(name, "conv2d", (*graph[source].shape[:3], 8), given, attrs).name


@pytest.fixture
def graph() -> FloatGraph:
    """Return two convolutions with a SiLU, and a sigmoid at the end."""
    made = FloatGraph("silu")
    made.add("x", "data", (1, 6, 6, 3))
    first = conv(made, "x", "first")
    shape = made[first].shape
    made.add("gate", "sigmoid", shape, {"input": [first]})
    made.add("silu", "mul", shape, {"input": [first, "gate"]})
    last = conv(made, "silu", "last")
    made.add("head", "sigmoid", shape, {"input": [last]})
    made.outputs = ["head"]
    return made


def test_nothing_is_rounded_within_a_function(graph: FloatGraph) -> None:
    found = place(graph, TABLES)
    assert found.groups.names == ["x", "first", "silu", "last"]
    assert list(found.floating) == ["head"]


def test_a_plain_target_leaves_them_in_float(graph: FloatGraph) -> None:
    assert set(place(graph, PLAIN).floating) >= {"gate", "head"}
    assert set(place(graph, QuantizeConfig()).floating) == set(place(graph, PLAIN).floating)


def test_a_function_of_an_input_stays_in_float() -> None:
    made = FloatGraph("normalized")
    made.add("x", "data", (1, 6, 6, 3))
    made.add("mean", "const", (1,), value=np.float32([127.5]))
    made.add("centred", "sub", (1, 6, 6, 3), {"input": ["x", "mean"]})
    made.outputs = [conv(made, "centred", "first")]
    assert tabulated(made, TABLES.target) == []


def test_a_function_without_a_reader_on_the_dpu_stays_in_float(graph: FloatGraph) -> None:
    graph.add("root", "exp", graph["head"].shape, {"input": ["last"]})
    graph.outputs = ["root"]
    assert "root" in place(graph, TABLES).floating


def test_a_fix_before_and_behind_a_function(
    graph: FloatGraph,
) -> None:
    x = np.random.default_rng(3).normal(0, 1, (20, 6, 6, 3)).astype(np.float32)
    made = quantize(graph, {"x": x}, TABLES)
    rounded = [n for n in made if n.kind == "fix" and made[n.inputs["input"][0]].value is None]
    assert [n.name for n in rounded] == ["x_fix", "first_fix", "silu_fix", "last_fix"]


def test_hard_swish_in_one_piece_is_worth_a_table() -> None:
    """Its product with its own gate would take two instructions."""
    made = FloatGraph("swish")
    made.add("x", "data", (1, 6, 6, 3))
    first = conv(made, "x", "first")
    made.add("act", "hard-swish", made[first].shape, {"input": [first]})
    made.outputs = [conv(made, "act", "last")]
    (function,) = tabulated(made, TABLES.target)
    assert function.nodes == ("act",) or list(function.nodes) == ["act"]
    assert tabulated(made, PLAIN.target) == []
