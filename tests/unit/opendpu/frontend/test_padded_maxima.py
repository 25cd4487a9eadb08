# SPDX-License-Identifier: Apache-2.0
"""Padding in front of a pool of maxima that no maximum sees is the pool's own."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from opendpu.frontend import load_onnx
from opendpu.ops.session import Session

LEAST = float(np.finfo(np.float32).min)
SHAPE = (1, 4, 9, 8)


def model(fill: float, pads: list[int], kernel: int = 3) -> onnx.ModelProto:
    """Return what ``timm`` exports for a pool that pads as TensorFlow does."""
    values = {"pads": np.array(pads, np.int64), "fill": np.float32(fill)}
    size = [kernel, kernel]
    graph = helper.make_graph(
        [
            helper.make_node("Pad", ["x", "pads", "fill"], ["padded"], mode="constant"),
            helper.make_node("MaxPool", ["padded"], ["y"], kernel_shape=size, strides=[2, 2]),
        ],
        "maxima",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(v), n) for n, v in values.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize(
    ("fill", "pads", "merged"),
    [
        (-np.inf, [0, 0, 1, 0, 0, 0, 1, 1], True),
        (LEAST, [0, 0, 0, 1, 0, 0, 2, 1], True),
        (0.0, [0, 0, 1, 0, 0, 0, 1, 1], False),
        (LEAST, [0, 0, 0, 0, 0, 0, 3, 1], False),
        (LEAST, [0, 1, 1, 1, 0, 0, 1, 1], False),
    ],
)
def test_padding(rng, fill, pads, merged):
    made = model(fill, pads)
    x = rng.normal(-2, 1, SHAPE).astype(np.float32)
    graph = load_onnx(made)
    assert ("pad" not in [node.kind for node in graph]) == merged
    session = onnxruntime.InferenceSession(
        made.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    (wanted,) = session.run(None, {"x": x})
    found = Session(graph).run({"x": x.transpose(0, 2, 3, 1)})["y"]
    np.testing.assert_array_equal(found.transpose(0, 3, 1, 2), wanted)
