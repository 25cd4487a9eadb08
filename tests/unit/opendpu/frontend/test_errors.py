# SPDX-License-Identifier: Apache-2.0
"""What is refused, and the words it is refused with."""

import re

import numpy as np
import onnx
import pytest
from onnx import external_data_helper, helper, numpy_helper

from opendpu.frontend import load_onnx
from opendpu.frontend.source import read
from opendpu_arch.errors import ModelFormatError, UnsupportedError

node = helper.make_node
X = [1, 4, 9, 7]


def refused(path, error, *texts):
    with pytest.raises(error) as caught:
        load_onnx(path)
    for text in texts:
        assert text in str(caught.value)


def test_missing_file(tmp_path):
    refused(tmp_path / "none.onnx", ModelFormatError, "none.onnx: no such file")


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 not a model", b"\x08\x0a"])
def test_no_model(tmp_path, content):
    path = tmp_path / "bad.onnx"
    path.write_bytes(content)
    refused(path, ModelFormatError, "bad.onnx is not an ONNX model")


def test_truncated_model(save):
    path = save(
        [node("Conv", ["x", "w"], ["y"])],
        {"x": X},
        {"y": None},
        {"w": np.ones((8, 4, 3, 3), np.float32)},
    )
    path.write_bytes(path.read_bytes()[:600])
    refused(path, ModelFormatError, "is not an ONNX model")


def test_every_unsupported_node_is_listed(save):
    path = save(
        [
            node("LSTM", ["x", "w", "w"], ["a"], name="memory", hidden_size=3),
            node("Pow", ["x", "high"], ["b"], name="power"),
            node("Relu", ["a"], ["c"], name="after"),
            node("Conv", ["x", "c"], ["d"], name="later"),
            node("Conv", ["x", "x"], ["e"], name="dynamic"),
            node("Add", ["b", "e"], ["y"]),
        ],
        {"x": X},
        {"y": None, "d": None},
        {
            "w": np.ones((1, 12, 4), np.float32),
            "high": np.array(1.0, "f"),
        },
    )
    refused(
        path,
        UnsupportedError,
        "model.onnx: 3 nodes cannot be converted",
        "node 'memory' (LSTM): the operator is not supported",
        "node 'power' (Pow): only the exponent 2 is supported",
        "node 'dynamic' (Conv): weights ('x') are computed, but must be constant",
    )


def test_other_domain(save):
    path = save(
        [node("Fancy", ["x"], ["y"], name="f", domain="com.example")], {"x": X}, {"y": None}
    )
    refused(path, UnsupportedError, "node 'f' (Fancy): operator domain 'com.example' is not")


def test_dynamic_dimension(save):
    path = save([node("Relu", ["x"], ["y"])], {"x": ["N", 4, "height", 7]}, {"y": None})
    refused(path, UnsupportedError, "input 'x' has dynamic dimension 2 ('height')")


def test_dynamic_batch_becomes_one(save):
    path = save([node("Relu", ["x"], ["y"])], {"x": ["N", 4]}, {"y": ["N", 4]})
    assert load_onnx(path)["x"].shape == (1, 4)


def test_integer_input(tmp_path):
    graph = helper.make_graph(
        [node("Cast", ["x"], ["y"], to=1)],
        "g",
        [helper.make_tensor_value_info("x", onnx.TensorProto.UINT8, [1, 4])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1, 4])],
    )
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    refused(path, UnsupportedError, "input 'x' has type UINT8, but must be FLOAT")


@pytest.mark.parametrize("opset", [6, 25])
def test_operator_set(save, opset):
    path = save([node("Relu", ["x"], ["y"])], {"x": X}, {"y": None}, opset=opset)
    refused(path, UnsupportedError, f"ONNX operator set {opset}, but 7 to 21 are supported")


def test_missing_weights(save):
    path = save([node("Conv", ["x", "w"], ["y"], name="c")], {"x": X}, {"y": None})
    refused(path, ModelFormatError, "node 'c' (Conv) reads 'w', which is neither an input")


def test_missing_output(save):
    path = save([node("Relu", ["x"], ["y"])], {"x": X}, {"z": None})
    refused(path, ModelFormatError, "output 'z' is made by no node")


@pytest.mark.parametrize("present", [False, True])
def test_external_weights(save, tmp_path, present):
    path = save(
        [node("Conv", ["x", "w"], ["y"])],
        {"x": X},
        {"y": None},
        {"w": np.ones((8, 4, 3, 3), np.float32)},
    )
    model = onnx.load(path)
    external_data_helper.convert_model_to_external_data(
        model, location="weights.bin", size_threshold=0
    )
    onnx.save(model, path)
    assert (tmp_path / "weights.bin").is_file()
    if present:
        found = load_onnx(path)["y_weights"].value
        assert found is not None
        assert (
            found.ravel().tolist()
            == numpy_helper.to_array(onnx.load(path).graph.initializer[0]).ravel().tolist()
        )
    else:
        (tmp_path / "weights.bin").unlink()
        refused(path, ModelFormatError, "weights 'w' are in 'weights.bin', which is missing")


@pytest.mark.parametrize(
    ("made", "weights", "reason"),
    [
        (node("MaxPool", ["x"], ["y", "i"], kernel_shape=[2, 2]), {}, "indices"),
        (node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], dilations=[2, 2]), {}, "dilations"),
        (node("MaxPool", ["x"], ["y"], kernel_shape=[12, 2]), {}, "does not fit the input"),
        (node("HardSigmoid", ["x"], ["y"]), {}, "alpha and beta are 0.2 and 0.5"),
        (node("Reshape", ["x", "s"], ["y"]), {"s": np.array([3, 5])}, "cannot become [3, 5]"),
        (node("Pow", ["x", "e"], ["y"]), {"e": np.array(3.0, "f")}, "only the exponent 2"),
        (node("Cast", ["x"], ["y"], to=7), {}, "casts other than to float32"),
        (node("Conv", ["x", "w"], ["y"]), {"w": np.ones((8, 3, 3, 3), "f")}, "do not fit 4 input"),
        (node("Conv", ["x", "w"], ["y"]), {"w": np.ones((8, 4, 3, 3, 3), "f")}, "5 dimensions"),
        (
            node("Resize", ["x", "", "s"], ["y"], mode="cubic"),
            {"s": np.array([1, 1, 2, 2], "f")},
            "mode 'cubic' with 'half_pixel' is not supported",
        ),
        (
            node("Resize", ["x", "", "s"], ["y"]),
            {"s": np.array([1, 2, 2, 2], "f")},
            "only height and width may change",
        ),
        (node("Gemm", ["f", "w"], ["y"], transA=1), {"w": np.ones((4, 4), "f")}, "transA"),
    ],
)
def test_reasons(save, made, weights, reason):
    first = node("Squeeze", ["x", "a"], ["f"])
    path = save([first, made], {"x": X}, {"y": None}, weights | {"a": np.array([0])})
    made_type = re.escape(made.op_type)
    with pytest.raises(UnsupportedError, match=rf"\({made_type}\)") as caught:
        load_onnx(path)
    assert reason in str(caught.value)


def test_types_that_contradict_each_other(save):
    path = save(
        [node("Conv", ["x", "w"], ["y"])], {"x": X}, {"y": None}, {"w": np.ones((4, 4, 1, 1), int)}
    )
    refused(path, ModelFormatError, "the types of its nodes contradict each other", "Conv")


def test_shapes_are_those_that_onnx_infers(save, monkeypatch):
    path = save([node("Relu", ["x"], ["y"])], {"x": X}, {"y": None})
    assert read(path).shapes == {"y": tuple(X)}
    monkeypatch.setattr("opendpu.frontend.source.infer_shapes", lambda *_: {"y": (1, 2)})
    refused(path, UnsupportedError, "result should have shape [1, 2], but has [1, 4, 9, 7]")
