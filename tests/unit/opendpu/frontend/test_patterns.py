# SPDX-License-Identifier: Apache-2.0
"""Activations in every spelling that the table has, and near misses."""

import itertools

import numpy as np
import pytest
from onnx import helper

from opendpu.frontend import load_onnx
from opendpu.frontend.patterns import PATTERNS, Term

KINDS = {
    "Swish": "swish", "Mish": "mish", "HardSwish": "hard-swish", "HardSigmoid": "hard-sigmoid",
    "Gelu": "gelu",
}  # fmt: skip
SPELLINGS = [
    pytest.param(KINDS[op], term, id=f"{op}-{number}")
    for op, _, terms in PATTERNS
    for number, term in enumerate(terms)
]


def has_constant(term: Term) -> bool:
    return term.value is not None or any(has_constant(one) for one in term.inputs)


class Writer:
    """Writes a term as nodes; with ``swapped`` the inputs of sums and products in other order."""

    def __init__(self, swapped: bool, opset: int) -> None:
        self.nodes, self.weights = [], {}
        self.swapped, self.opset = swapped, opset
        self.names = (f"t{n}" for n in itertools.count())

    def write(self, term: Term, name: str | None = None) -> str:
        if term.value is not None:
            name = name or next(self.names)
            self.weights[name] = np.array(term.value, np.float32)
            return name
        if not term.op_type:
            return "x"
        attrs = dict(term.attrs)
        inputs = [self.write(one) for one in term.inputs]
        if term.op_type == "Clip" and self.opset < 11:
            attrs = {"min": term.inputs[1].value, "max": term.inputs[2].value}
            inputs = inputs[:1]
        if self.swapped and term.op_type in ("Add", "Mul", "Min"):
            inputs.reverse()
        name = name or next(self.names)
        self.nodes.append(helper.make_node(term.op_type, inputs, [name], **attrs))
        return name


@pytest.mark.parametrize("opset", [10, 17])
@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize(("kind", "term"), SPELLINGS)
def test_every_spelling(save, agrees, kind, term, swapped, opset):
    writer = Writer(swapped, opset)
    writer.write(term, "y")
    path = save(writer.nodes, {"x": [1, 4, 5, 6]}, {"y": None}, writer.weights, opset=opset)
    graph = agrees(path)
    assert [node.kind for node in graph if node.kind != "data"] == [kind]
    assert graph["y"].origin.name == "y"


@pytest.mark.parametrize(("kind", "term"), SPELLINGS)
def test_results_that_somebody_reads_stay(save, agrees, kind, term):
    writer = Writer(False, 17)
    writer.write(term, "y")
    inner = writer.nodes[0].output[0]
    path = save(writer.nodes, {"x": [1, 4, 5, 6]}, {"y": None, inner: None}, writer.weights)
    assert kind not in [node.kind for node in agrees(path)]


@pytest.mark.parametrize(
    ("kind", "term"), [one for one in SPELLINGS if has_constant(one.values[1])]
)
def test_other_constants_are_something_else(save, agrees, kind, term):
    writer = Writer(False, 17)
    writer.write(term, "y")
    first = next(iter(writer.weights))
    writer.weights[first] = writer.weights[first] + np.float32(0.01)
    path = save(writer.nodes, {"x": [1, 4, 5, 6]}, {"y": None}, writer.weights)
    assert kind not in [node.kind for node in agrees(path)]


def test_other_tensors_are_something_else(save, agrees):
    gate = [helper.make_node("Sigmoid", ["z"], ["s"]), helper.make_node("Mul", ["x", "s"], ["y"])]
    path = save(gate, {"x": [1, 4], "z": [1, 4]}, {"y": None})
    assert [node.kind for node in agrees(path)] == ["data", "data", "sigmoid", "mul"]


def test_patterns_of_other_types_stay_onnx(save):
    cast = helper.make_node("Cast", ["x"], ["h"], to=10)
    gate = [helper.make_node("Sigmoid", ["h"], ["s"]), helper.make_node("Mul", ["h", "s"], ["y"])]
    path = save([cast, *gate], {"x": [1, 4]}, {"y": None})
    kinds = [node.kind for node in load_onnx(path)]
    assert kinds == ["data", "cast", "onnx", "onnx"]


def test_constants_that_make_tensors_larger_are_something_else(save, agrees):
    nodes = [
        helper.make_node("Mul", ["x", "ones"], ["p"]),
        helper.make_node("Sigmoid", ["p"], ["s"]),
        helper.make_node("Mul", ["x", "s"], ["y"]),
    ]
    ones = {"ones": np.ones((3, 1, 1), np.float32)}
    graph = agrees(save(nodes, {"x": [1, 1, 5, 6]}, {"y": None}, ones))
    assert "swish" not in [node.kind for node in graph]
