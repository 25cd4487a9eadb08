# SPDX-License-Identifier: Apache-2.0
"""Versions of onnxruntime that the library works with, and models read through its C API."""

import pathlib

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from opendpu.onnxruntime.abi import check_version
from opendpu.onnxruntime.options import PROVIDER
from opendpu.onnxruntime.provider import Provider
from opendpu.onnxruntime.registration import RegisteredSession
from opendpu_arch.errors import ToolError


@pytest.mark.parametrize("version", ["1.22.2", "1.9.0", ""])
def test_old_versions_are_refused(version: str) -> None:
    with pytest.raises(ToolError, match=r"1\.23 or newer is needed"):
        check_version(version)


def test_new_versions_are_taken() -> None:
    for version in ("1.23.0", "1.31.1", "2.0.0", "1.24.0.dev1"):
        check_version(version)


@pytest.mark.usefixtures("registered")
def test_a_model_is_read_with_all_kinds_of_attributes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    """Attributes, weights, symbolic sizes and bodies of nodes arrive as they were."""
    body = helper.make_graph(
        [helper.make_node("Mul", ["x", "two"], ["m"])],
        "body",
        [],
        [helper.make_tensor_value_info("m", TensorProto.FLOAT, None)],
    )
    other = helper.make_graph(
        [helper.make_node("Neg", ["x"], ["n"])],
        "other",
        [],
        [helper.make_tensor_value_info("n", TensorProto.FLOAT, None)],
    )
    rng = np.random.default_rng(3)
    weights = {
        "w": rng.normal(size=(4, 3, 3, 3)).astype(np.float32),
        "two": np.float32([2]),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], "conv", pads=[0, 1, 2, 1], auto_pad="NOTSET"),
        helper.make_node("Elu", ["c"], ["e"], "elu", alpha=0.25),
        helper.make_node("If", ["flag"], ["b"], "if", then_branch=body, else_branch=other),
        helper.make_node("Shape", ["e"], ["s"], "shape"),
        helper.make_node(
            "ConstantOfShape", ["s"], ["k"], "fill",
            value=numpy_helper.from_array(np.float32([0.5])),
        ),
        helper.make_node("Add", ["e", "k"], ["y"], "add"),
    ]  # fmt: skip
    graph = helper.make_graph(
        nodes,
        "every",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3, 6, 5]),
            helper.make_tensor_value_info("flag", TensorProto.BOOL, []),
        ],
        [
            helper.make_tensor_value_info("y", TensorProto.FLOAT, None),
            helper.make_tensor_value_info("b", TensorProto.FLOAT, None),
        ],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    read: list[onnx.ModelProto] = []
    monkeypatch.setattr(
        Provider,
        "_capability",
        lambda self, _, graph, __: (
            self.reader.is_nested(graph) or read.append(self.reader.model(graph))
        ),
    )
    RegisteredSession(model.SerializeToString(), providers=[PROVIDER])
    assert read[0].graph.input[0].type.tensor_type.shape.dim[0].dim_param == "N"
    assert read[0].opset_import[0].version == 17
    feeds = {"x": rng.normal(size=(2, 3, 6, 5)).astype(np.float32)}
    for flag in (True, False):
        feeds["flag"] = np.array(flag)
        results = [
            onnxruntime.InferenceSession(
                m.SerializeToString(), providers=["CPUExecutionProvider"]
            ).run(["y", "b"], feeds)
            for m in (model, read[0])
        ]
        for one, again in zip(*results, strict=True):
            np.testing.assert_array_equal(one, again)
