# SPDX-License-Identifier: Apache-2.0
"""Outputs that are lists, dictionaries or text: a session gives what onnxruntime's gives."""

import logging
import pathlib

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from opendpu.onnxruntime import PROVIDER, InferenceSession
from opendpu_arch.errors import TensorError, UnsupportedError

CLASSES = list(range(10))
NAMES = [f"class {number}" for number in CLASSES]
ML = "ai.onnx.ml"


@pytest.fixture
def odd_model(float_model: pathlib.Path, tmp_path: pathlib.Path) -> pathlib.Path:
    """Return the classifier with a dictionary for each sample, names of classes, and a list."""
    model = onnx.load(float_model)
    model.opset_import.append(helper.make_opsetid(ML, 3))
    model.graph.node.extend(
        [
            helper.make_node(
                "ZipMap", ["probabilities"], ["zipped"], domain=ML, classlabels_int64s=CLASSES
            ),
            helper.make_node("ArgMax", ["logits"], ["best"], axis=1, keepdims=0),
            helper.make_node(
                "LabelEncoder", ["best"], ["label"], domain=ML, keys_int64s=CLASSES,
                values_strings=NAMES,
            ),
            helper.make_node("SequenceConstruct", ["map", "logits"], ["both"]),
        ]
    )  # fmt: skip
    element = helper.make_map_type_proto(
        TensorProto.INT64, helper.make_tensor_type_proto(TensorProto.FLOAT, None)
    )
    del model.graph.output[0]
    model.graph.output.extend(
        [
            helper.make_value_info("zipped", helper.make_sequence_type_proto(element)),
            helper.make_tensor_value_info("label", TensorProto.STRING, ["N"]),
            helper.make_tensor_sequence_value_info("both", TensorProto.FLOAT, None),
        ]
    )
    onnx.save(model, tmp_path / "odd.onnx")
    return tmp_path / "odd.onnx"


@pytest.fixture
def session(odd_model: pathlib.Path, options: dict[str, str], calibration: pathlib.Path):
    given = {**options, "calibration": str(calibration)}
    return InferenceSession(odd_model, providers=[PROVIDER], provider_options=[given])


def test_results_are_of_onnxruntime_s_types(session, odd_model, samples):
    cpu = onnxruntime.InferenceSession(odd_model, providers=["CPUExecutionProvider"])
    x = samples[:3]
    assert session.get_providers()[0] == PROVIDER
    assert [one.type for one in session.get_outputs()] == [one.type for one in cpu.get_outputs()]
    feature_map, zipped, label, both = session.run(None, {"x": x})
    exact_map, exact_zipped, exact_label, exact_both = cpu.run(None, {"x": x})
    np.testing.assert_allclose(feature_map, exact_map, atol=0.25)
    np.testing.assert_array_equal(both[0], feature_map)
    assert label.dtype == exact_label.dtype
    assert label.tolist() == [NAMES[row.argmax()] for row in both[1]]
    assert len(both) == len(exact_both)
    assert len(zipped) == len(exact_zipped) == len(x)
    for found, wanted in zip(zipped, exact_zipped, strict=True):
        assert list(found) == list(wanted) == CLASSES
        np.testing.assert_allclose(list(found.values()), list(wanted.values()), atol=0.05)


def test_outputs_by_name(session, samples):
    (label,) = session.run(["label"], {"x": samples[:1]})
    assert label.tolist()[0] in NAMES
    (feature_map,) = session.run(["map"], {"x": samples[:1]})
    assert feature_map.shape == (1, 8, 8, 8)


def test_lists_have_no_ort_value(session, samples):
    value = onnxruntime.OrtValue.ortvalue_from_numpy(samples[:1])
    assert session.run_with_ort_values(["map"], {"x": value})[0].shape() == [1, 8, 8, 8]
    with pytest.raises(TensorError, match=r"'both' is no tensor, and has no OrtValue: call run"):
        session.run_with_ort_values(["both"], {"x": value})


def test_they_cannot_be_compiled_into_a_model(odd_model, options, calibration, tmp_path):
    wanted = onnxruntime.SessionOptions()
    wanted.add_session_config_entry("ep.context_enable", "1")
    wanted.add_session_config_entry("ep.context_file_path", str(tmp_path / "context.onnx"))
    given = {**options, "calibration": str(calibration)}
    with pytest.raises(UnsupportedError, match="zipped, label, both are no tensors of numbers"):
        InferenceSession(odd_model, wanted, providers=[PROVIDER], provider_options=[given])
    assert not (tmp_path / "context.onnx").exists()


def test_text_as_input_stays_on_the_cpu(options, caplog):
    text = helper.make_tensor_value_info("words", TensorProto.STRING, [2])
    numbers = helper.make_tensor_value_info("y", TensorProto.INT64, [2])
    known = {"keys_strings": ["ab", "CD"], "values_int64s": [3, 5]}
    graph = helper.make_graph(
        [helper.make_node("LabelEncoder", ["words"], ["y"], domain=ML, **known)],
        "text", [text], [numbers],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(ML, 3)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    with caplog.at_level(logging.WARNING, logger="opendpu.onnxruntime"):
        session = InferenceSession(
            model.SerializeToString(), providers=[PROVIDER], provider_options=[options]
        )
    assert "input 'words' is tensor(string), but the DPU's are tensors of numbers" in caplog.text
    (found,) = session.run(None, {"words": np.array(["CD", "ab"], object)})
    assert found.tolist() == [5, 3]
