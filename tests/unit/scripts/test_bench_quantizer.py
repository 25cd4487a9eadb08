# SPDX-License-Identifier: Apache-2.0
"""The model that all quantizers of the benchmark get."""

import importlib
import pathlib

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper


def test_sizes_that_are_joined_along_an_axis_counted_from_the_end(
    repository: pathlib.Path, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    monkeypatch.syspath_prepend(str(repository / "scripts" / "bench"))
    prepare = importlib.import_module("quantizers.prepare").prepare
    values = {"first": [0], "second": [1], "rest": [-1], "w": np.ones((4, 3, 1, 1), np.float32)}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"]),
        helper.make_node("Shape", ["c"], ["sizes"]),
        helper.make_node("Slice", ["sizes", "first", "second"], ["batch"]),
        helper.make_node("Concat", ["batch", "rest"], ["wanted"], axis=-1),
        helper.make_node("Reshape", ["c", "wanted"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes, "rows",
        [helper.make_tensor_value_info("x", 1, ["batch", 3, "height", "width"])],
        [helper.make_tensor_value_info("y", 1, None)],
        [numpy_helper.from_array(np.array(value), name) for name, value in values.items()],
    )  # fmt: skip
    source, target = tmp_path / "source.onnx", tmp_path / "target.onnx"
    opsets = [helper.make_opsetid("", 13)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), source)
    prepare(source, target, (1, 3, 2, 5))
    session = onnxruntime.InferenceSession(str(target), providers=["CPUExecutionProvider"])
    (made,) = session.run(None, {"x": np.ones((1, 3, 2, 5), np.float32)})
    np.testing.assert_array_equal(made, np.full((1, 40), 3))
