# SPDX-License-Identifier: Apache-2.0
"""Hard-sigmoids whose 3 is in the bias of the layer before them, as TFLite files have them."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from opendpu.frontend import load_onnx
from opendpu.ops.session import Session


def model(kind: str) -> onnx.ModelProto:
    """Return a gate behind a convolution: as one operator, or with its 3 in the bias."""
    rng = np.random.default_rng(0)
    constants = {
        "w": rng.normal(0, 0.5, (4, 3, 1, 1)), "b": rng.normal(3, 1, 4),
        "low": np.array(0), "high": np.array(6),
        "factor": np.array(0.5 if kind == "half" else 1 / 6),
    }  # fmt: skip
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["a"]),
        helper.make_node("Clip", ["a", "low", "high"], ["c"]),
        helper.make_node("Mul", ["c", "factor"], ["y"]),
    ]
    outputs = ["y", "c"] if kind == "read" else ["y"]
    graph = helper.make_graph(
        nodes, "gate",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 4, 8, 8]) for n in outputs],
        [numpy_helper.from_array(v.astype(np.float32), n) for n, v in constants.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@pytest.mark.parametrize(("kind", "joined"), [("gate", True), ("half", False), ("read", False)])
def test_one_operator_that_computes_the_same(kind: str, joined: bool) -> None:
    proto = model(kind)
    graph = load_onnx(proto)
    kinds = [node.kind for node in graph]
    assert ("hard-sigmoid" in kinds) is joined
    assert ("relu6" in kinds) is not joined
    x = np.random.default_rng(1).normal(0, 3, (1, 3, 8, 8)).astype(np.float32)
    (wanted, *_) = onnxruntime.InferenceSession(
        proto.SerializeToString(), providers=["CPUExecutionProvider"]
    ).run(["y"], {"x": x})
    found = Session(graph).run({"x": x.transpose(0, 2, 3, 1)})[graph.outputs[0]]
    np.testing.assert_allclose(found.transpose(0, 3, 1, 2), wanted, atol=1e-6)
