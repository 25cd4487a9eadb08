# SPDX-License-Identifier: Apache-2.0
"""Outputs that are no tensors of numbers: what is compiled, and what is said of it."""

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, ValueInfoProto, helper, numpy_helper

from opendpu.frontend import load_onnx
from opendpu.frontend.number_outputs import with_number_outputs
from opendpu.frontend.source import read
from opendpu.ops.session import Session
from opendpu_arch.errors import UnsupportedError

ML = "ai.onnx.ml"
NAMES = {"keys_int64s": [0, 1, 2], "values_strings": ["cat", "dog", "eel"]}
KINDS = {"text": TensorProto.INT64}
"""Of the tensors that outputs are made of, where they are no floats."""
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


CASES = {
    "text": (
        [
            helper.make_node("ArgMax", ["scores"], ["best"], axis=1, keepdims=0),
            helper.make_node("LabelEncoder", ["best"], ["y"], domain=ML, **NAMES),
        ],
        text("y"), ["best"],
        "output 'y' is text in the file (ai.onnx.ml.LabelEncoder of 'cat', 'dog', 'eel'): here it "
        "is tensor 'best'",
    ),
    "list": (
        [helper.make_node("SequenceConstruct", ["positive", "scores"], ["y"])],
        helper.make_tensor_sequence_value_info("y", TensorProto.FLOAT, None),
        ["positive", "scores"],
        "output 'y' is a list in the file (SequenceConstruct): here it is tensors 'positive', "
        "'scores'",
    ),
    "list of a list": (
        [
            helper.make_node("SequenceConstruct", ["scores"], ["short"]),
            helper.make_node("SequenceInsert", ["short", "positive"], ["y"]),
        ],
        helper.make_tensor_sequence_value_info("y", TensorProto.FLOAT, None),
        ["scores", "positive"],
        "output 'y' is a list in the file (SequenceInsert): here it is tensors 'scores', "
        "'positive'",
    ),
    "optional": (
        [helper.make_node("Optional", ["scores"], ["y"])],
        helper.make_value_info("y", OPTIONAL), ["scores"],
        "output 'y' is optional in the file (Optional): here it is tensor 'scores'",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_what_it_is_made_of(rng, case):
    nodes, output, sources, note = CASES[case]
    made = model(nodes, [output])
    assert read(made).notes == [note]
    x = rng.normal(0, 1, (2, 4)).astype(np.float32)
    exact = model(nodes, [floats(name) for name in sources])
    exact.graph.output[0].type.tensor_type.elem_type = KINDS.get(case, TensorProto.FLOAT)
    session = onnxruntime.InferenceSession(
        exact.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    graph = load_onnx(made)
    assert graph.outputs == (["y"] if len(sources) == 1 else sources)
    found = Session(graph).run({"x": x})
    for name, wanted in zip(graph.outputs, session.run(None, {"x": x}), strict=True):
        np.testing.assert_allclose(found[name], wanted, rtol=1e-5)


def test_a_tensor_that_is_an_output_already_is_one_once():
    nodes = [helper.make_node("SequenceConstruct", ["scores"], ["y"])]
    outputs = [
        floats("scores"),
        helper.make_tensor_sequence_value_info("y", TensorProto.FLOAT, None),
    ]
    assert load_onnx(model(nodes, outputs)).outputs == ["scores"]


def test_what_nothing_needs_any_more_is_left_out():
    nodes, output, _, _ = CASES["text"]
    made, _ = with_number_outputs(model(nodes, [output]))
    assert [node.op_type for node in made.graph.node] == ["Relu", "MatMul", "ArgMax", "Identity"]


def test_text_from_the_start_is_refused():
    nodes = [helper.make_node("Identity", ["words"], ["y"])]
    made = model(nodes, [floats("scores"), text("y")], [text("words")])
    assert with_number_outputs(made) == (made, [])
    with pytest.raises(UnsupportedError, match="words"):
        load_onnx(made)


def test_a_model_of_numbers_is_returned_as_it_is():
    made = model([], [floats("scores")])
    assert with_number_outputs(made)[0] is made
    assert read(made).notes == []


def test_a_name_that_comes_twice_as_two_things():
    """Found by fuzzing: what it is was asked of the one that does not say it."""
    nodes, *_ = CASES["text"]
    made, (note,) = with_number_outputs(model(nodes, [text("y"), ValueInfoProto(name="y")]))
    assert [item.name for item in made.graph.output] == ["y"]
    assert note.startswith("output 'y' is text in the file")
