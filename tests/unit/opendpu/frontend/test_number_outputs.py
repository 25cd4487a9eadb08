# SPDX-License-Identifier: Apache-2.0
"""Outputs that are no tensors of numbers: what is compiled, and what is said of it."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from opendpu.frontend import load_onnx
from opendpu.frontend.number_outputs import cut_at_numbers
from opendpu.frontend.source import read
from opendpu.ops.session import Session
from opendpu_arch.errors import UnsupportedError

ML = "ai.onnx.ml"
NAMES = {"keys_int64s": [0, 1, 2], "values_strings": ["cat", "dog", "eel"]}
OPTIONAL = helper.make_optional_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, None))


def model(nodes, outputs, inputs=()):
    graph = helper.make_graph(
        [
            helper.make_node("Relu", ["x"], ["positive"]),
            helper.make_node("MatMul", ["positive", "w"], ["scores"]),
            *nodes,
        ],
        "odd",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 4]), *inputs],
        outputs,
        [numpy_helper.from_array(np.arange(12, dtype=np.float32).reshape(4, 3) - 6, "w")],
    )
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid(ML, 3)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def text(name):
    return helper.make_tensor_value_info(name, TensorProto.STRING, None)


def floats(name):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, None)


def joined(made, x):
    """Return what both parts of a cut give."""
    cut = cut_at_numbers(made)
    options = {"providers": ["CPUExecutionProvider"]}
    first = onnxruntime.InferenceSession(cut.numbers.SerializeToString(), **options)
    names = [one.name for one in first.get_outputs()]
    values = {"x": x, **dict(zip(names, first.run(None, {"x": x}), strict=True))}
    second = onnxruntime.InferenceSession(cut.others.SerializeToString(), **options)
    given = {one.name: values[one.name] for one in second.get_inputs()}
    return second.run(None, given)


CASES = {
    "text": (
        [
            helper.make_node("ArgMax", ["scores"], ["best"], axis=1, keepdims=0),
            helper.make_node("LabelEncoder", ["best"], ["y"], domain=ML, **NAMES),
        ],
        text("y"), {"y": ["best"]},
        "output 'y' is text in the file (ai.onnx.ml.LabelEncoder of 'cat', 'dog', 'eel'): here it "
        "is tensor 'best'",
    ),
    "list": (
        [helper.make_node("SequenceConstruct", ["positive", "scores"], ["y"])],
        helper.make_tensor_sequence_value_info("y", TensorProto.FLOAT, None),
        {"y": ["positive", "scores"]},
        "output 'y' is a list in the file (SequenceConstruct): here it is tensors 'positive', "
        "'scores'",
    ),
    "list of a list": (
        [
            helper.make_node("SequenceConstruct", ["scores"], ["short"]),
            helper.make_node("SequenceInsert", ["short", "positive"], ["y"]),
        ],
        helper.make_tensor_sequence_value_info("y", TensorProto.FLOAT, None),
        {"y": ["scores", "positive"]},
        "output 'y' is a list in the file (SequenceInsert): here it is tensors 'scores', "
        "'positive'",
    ),
    "optional": (
        [helper.make_node("Optional", ["scores"], ["y"])],
        helper.make_value_info("y", OPTIONAL), {"y": ["scores"]},
        "output 'y' is optional in the file (Optional): here it is tensor 'scores'",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_what_it_is_made_of(rng, case):
    nodes, output, sources, note = CASES[case]
    made = model(nodes, [output])
    assert cut_at_numbers(made).made_of == sources
    assert read(made).notes == [note]
    x = rng.normal(0, 1, (2, 4)).astype(np.float32)
    whole = onnxruntime.InferenceSession(
        made.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    (wanted,), (found,) = whole.run(None, {"x": x}), joined(made, x)
    assert all(np.array_equal(a, b) for a, b in zip(wanted, found, strict=True))


def test_one_tensor_has_the_output_s_name(rng):
    nodes, output, _, _ = CASES["text"]
    x = rng.normal(0, 1, (2, 4)).astype(np.float32)
    found = Session(load_onnx(model(nodes, [output]))).run({"x": x})
    weights = np.arange(12, dtype=np.float32).reshape(4, 3) - 6
    np.testing.assert_array_equal(found["y"], (np.maximum(x, 0) @ weights).argmax(1))


def test_a_tensor_that_is_an_output_already_is_one_once():
    nodes = [helper.make_node("SequenceConstruct", ["scores"], ["y"])]
    outputs = [
        floats("scores"),
        helper.make_tensor_sequence_value_info("y", TensorProto.FLOAT, None),
    ]
    assert load_onnx(model(nodes, outputs)).outputs == ["scores"]


def test_what_nothing_needs_any_more_is_left_out():
    nodes, output, _, _ = CASES["text"]
    cut = cut_at_numbers(model(nodes, [output]))
    assert [node.op_type for node in cut.numbers.graph.node] == ["Relu", "MatMul", "ArgMax"]
    assert [node.op_type for node in cut.others.graph.node] == ["LabelEncoder"]
    assert not cut.others.graph.initializer


def test_text_from_the_start_is_refused():
    nodes = [helper.make_node("Identity", ["words"], ["y"])]
    made = model(nodes, [floats("scores"), text("y")], [text("words")])
    assert cut_at_numbers(made) is None
    with pytest.raises(UnsupportedError, match="words"):
        load_onnx(made)


def test_a_model_of_numbers_is_returned_as_it_is():
    made = model([], [floats("scores")])
    assert cut_at_numbers(made) is None
    assert read(made).notes == []
    assert isinstance(made, onnx.ModelProto)
