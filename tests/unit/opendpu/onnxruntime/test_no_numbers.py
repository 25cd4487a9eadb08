# SPDX-License-Identifier: Apache-2.0
"""Inputs and outputs that are no tensors of numbers: they are onnxruntime's own, to the letter."""

import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import opendpu.onnxruntime
from opendpu.onnxruntime import PROVIDER
from opendpu.onnxruntime.registration import RegisteredSession
from opendpu_arch.errors import UnsupportedError

TEXT, NUMBER, WHOLE = TensorProto.STRING, TensorProto.FLOAT, TensorProto.INT64
ML = "ai.onnx.ml"
WORDS = ["cat", "dog", "cow", "hen", "fox", "owl", "bat", "ant", "bee", "eel"]

Extend = Callable[..., pathlib.Path]


@pytest.fixture
def extended(quantized_model: pathlib.Path, tmp_path: pathlib.Path) -> Extend:
    """Return what writes the quantized network with more operators and other ends."""

    def write(
        nodes: Sequence[onnx.NodeProto],
        inputs: Sequence[onnx.ValueInfoProto] = (),
        outputs: Sequence[onnx.ValueInfoProto] = (),
        weights: Sequence[onnx.TensorProto] = (),
    ) -> pathlib.Path:
        model = onnx.load(quantized_model)
        if inputs:
            del model.graph.input[:]
        if outputs:
            del model.graph.output[:]
        own = list(model.graph.node)
        del model.graph.node[:]
        first = [node for node in nodes if "x" in node.output or node.name.startswith("first")]
        model.graph.node.extend([*first, *own, *(node for node in nodes if node not in first)])
        model.graph.input.extend(inputs)
        model.graph.output.extend(outputs)
        model.graph.initializer.extend(weights)
        model.opset_import.append(helper.make_opsetid(ML, 3))
        path = tmp_path / "extended.onnx"
        onnx.save(model, path)
        return path

    return write


def named(name: str, kind: onnx.TypeProto) -> onnx.ValueInfoProto:
    return helper.make_value_info(name, kind)


def tensor(kind: int, shape: Sequence[Any] | None = None) -> onnx.TypeProto:
    return helper.make_tensor_type_proto(kind, shape)


def zipped(extended: Extend) -> pathlib.Path:
    """Return the network with a word for the best class, and a dictionary of probabilities."""
    nodes = [
        helper.make_node("ArgMax", ["probabilities"], ["best"], axis=1, keepdims=0),
        helper.make_node(
            "LabelEncoder", ["best"], ["word"], domain=ML, keys_int64s=list(range(10)),
            values_strings=WORDS,
        ),
        helper.make_node("ZipMap", ["probabilities"], ["table"], domain=ML,
                         classlabels_strings=WORDS),
    ]  # fmt: skip
    table = helper.make_sequence_type_proto(helper.make_map_type_proto(TEXT, tensor(NUMBER)))
    return extended(nodes, outputs=[named("word", tensor(TEXT, ["N"])), named("table", table)])


@pytest.fixture(params=["python", "library"])
def opened(
    request: pytest.FixtureRequest, options: dict[str, str]
) -> Callable[[pathlib.Path], Any]:
    """Return what opens a model: our own session, and onnxruntime's with the library."""
    if request.param == "library":
        request.getfixturevalue("registered")

    def open_(path: pathlib.Path) -> Any:
        kind = opendpu.onnxruntime.InferenceSession
        if request.param == "library":
            kind = RegisteredSession
        session = kind(path, providers=[PROVIDER], provider_options=[options])
        assert session.get_providers()[0] == PROVIDER
        return session

    return open_


def check(found: Any, wanted: Any) -> None:
    """Check values as onnxruntime gives them: types, keys and shapes, numbers nearly."""
    assert type(found) is type(wanted)
    if isinstance(wanted, list):
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            check(one, other)
    elif isinstance(wanted, dict):
        assert list(found) == list(wanted)
        np.testing.assert_allclose(list(found.values()), list(wanted.values()), atol=0.02)
    elif wanted.dtype.kind == "f":
        assert found.dtype == wanted.dtype
        np.testing.assert_allclose(found, wanted, atol=0.02)
    else:
        np.testing.assert_array_equal(found, wanted)


def compare(session: Any, path: pathlib.Path, feeds: dict[str, Any]) -> None:
    """Check the results of a session against those of onnxruntime alone."""
    own = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    assert [o.type for o in session.get_outputs()] == [o.type for o in own.get_outputs()]
    check(session.run(None, feeds), own.run(None, feeds))


def test_a_dictionary_and_a_word_come_out(
    extended: Extend, opened: Callable[[pathlib.Path], Any], samples: np.ndarray
) -> None:
    path = zipped(extended)
    session = opened(path)
    compare(session, path, {"x": samples[:1]})
    compare(session, path, {"x": samples[:3]})
    (table,) = session.run(["table"], {"x": samples[:1]})
    assert sorted(table[0]) == sorted(WORDS)


def test_a_sequence_of_tensors_comes_out(
    extended: Extend, opened: Callable[[pathlib.Path], Any], samples: np.ndarray
) -> None:
    nodes = [helper.make_node("SequenceConstruct", ["map", "logits", "probabilities"], ["all"])]
    kind = helper.make_sequence_type_proto(tensor(NUMBER))
    path = extended(
        nodes,
        outputs=[named("all", kind), named("probabilities", tensor(NUMBER, ["N", 10]))],
    )
    compare(opened(path), path, {"x": samples[:1]})


def test_a_word_chooses_an_input(
    extended: Extend, opened: Callable[[pathlib.Path], Any], samples: np.ndarray
) -> None:
    """The network's own input is made from words, by a table of pictures."""
    nodes = [
        helper.make_node(
            "StringNormalizer", ["words"], ["lower"], "first", case_change_action="LOWER",
            locale="C",
        ),
        helper.make_node(
            "LabelEncoder", ["lower"], ["number"], "first_too", domain=ML,
            keys_strings=WORDS, values_int64s=list(range(10)),
        ),
        helper.make_node("Gather", ["pictures", "number"], ["x"]),
    ]  # fmt: skip
    path = extended(
        nodes, inputs=[named("words", tensor(TEXT, [1]))],
        weights=[numpy_helper.from_array(samples[:10], "pictures")],
    )  # fmt: skip
    session = opened(path)
    for word in ("DOG", "Hen"):
        compare(session, path, {"words": np.array([word])})


def test_a_word_goes_through_to_the_end(
    extended: Extend, opened: Callable[[pathlib.Path], Any], samples: np.ndarray
) -> None:
    """Beside the network, and joined with what it gives."""
    nodes = [
        helper.make_node("ArgMax", ["probabilities"], ["best"], axis=1, keepdims=0),
        helper.make_node("Cast", ["best"], ["text"], to=TEXT),
        helper.make_node("StringConcat", ["name", "text"], ["both"]),
        helper.make_node("Identity", ["name"], ["again"]),
    ]
    path = extended(
        nodes,
        inputs=[named("x", tensor(NUMBER, ["N", 3, 8, 8])), named("name", tensor(TEXT, ["N"]))],
        outputs=[named("both", tensor(TEXT)), named("again", tensor(TEXT))],
    )
    model = onnx.load(path)
    model.opset_import[0].version = 20
    onnx.save(model, path)
    compare(opened(path), path, {"x": samples[:1], "name": np.array(["class "], object)})


@pytest.fixture
def growing(extended: Extend) -> pathlib.Path:
    """Return the network behind a list of results, to which it adds its own."""
    kind = helper.make_sequence_type_proto(tensor(NUMBER, None))
    return extended(
        [helper.make_node("SequenceInsert", ["seen", "probabilities"], ["more"])],
        inputs=[named("x", tensor(NUMBER, ["N", 3, 8, 8])), named("seen", kind)],
        outputs=[named("more", kind)],
    )


def test_a_sequence_goes_in(
    growing: pathlib.Path, options: dict[str, str], samples: np.ndarray
) -> None:
    session = opendpu.onnxruntime.InferenceSession(growing, None, [PROVIDER], [options])
    assert session.get_providers()[0] == PROVIDER
    compare(session, growing, {"x": samples[:1], "seen": [np.zeros((1, 10), np.float32)]})


@pytest.mark.usefixtures("registered")
def test_the_library_leaves_a_sequence_that_goes_in(
    growing: pathlib.Path, options: dict[str, str], samples: np.ndarray,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    """onnxruntime's C interface does not say what its items are."""
    session = RegisteredSession(growing, providers=[PROVIDER], provider_options=[options])
    compare(session, growing, {"x": samples[:1], "seen": [np.zeros((1, 10), np.float32)]})
    assert "stays on the CPU: input 'seen' is no tensor" in caplog.text


def test_what_is_not_there_says_so(
    extended: Extend, options: dict[str, str], samples: np.ndarray, tmp_path: pathlib.Path
) -> None:
    path = zipped(extended)
    session = opendpu.onnxruntime.InferenceSession(path, None, [PROVIDER], [options])
    feeds = {"x": onnxruntime.OrtValue.ortvalue_from_numpy(samples[:1])}
    with pytest.raises(UnsupportedError, match="output 'table' is a list"):
        session.run_with_ort_values(["table"], feeds)
    made = onnxruntime.SessionOptions()
    made.add_session_config_entry("ep.context_enable", "1")
    with pytest.raises(UnsupportedError, match=r"ep\.context_enable.*register"):
        opendpu.onnxruntime.InferenceSession(path, made, [PROVIDER], [options])


def test_nothing_but_words_stays(
    tmp_path: pathlib.Path, options: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    graph = helper.make_graph(
        [helper.make_node("StringNormalizer", ["a"], ["b"], case_change_action="UPPER",
                          locale="C")],
        "words", [named("a", tensor(TEXT, [2]))], [named("b", tensor(TEXT, [2]))],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, tmp_path / "words.onnx")
    session = opendpu.onnxruntime.InferenceSession(
        tmp_path / "words.onnx", None, [PROVIDER], [options]
    )
    assert session.run(None, {"a": np.array(["x", "y"])})[0].tolist() == ["X", "Y"]
    assert "stays on the CPU" in caplog.text
