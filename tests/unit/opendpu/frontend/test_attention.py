# SPDX-License-Identifier: Apache-2.0
"""ONNX's ``Attention`` as products and a softmax: the same numbers, and what stays whole."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from opendpu.frontend import load_onnx
from opendpu.ops.session import Session

TOKENS, KEYS, HEADS, SIZE = 6, 5, 2, 4
BATCH_OF_HEADS = [(1, HEADS, n, SIZE) for n in (TOKENS, KEYS, KEYS)]
JOINED = [(1, n, HEADS * SIZE) for n in (TOKENS, KEYS, KEYS)]
SPLIT = {"q_num_heads": HEADS, "kv_num_heads": HEADS}
RNG = np.random.default_rng(3)
ADDED = RNG.standard_normal((TOKENS, KEYS)).astype(np.float32)
HIDDEN = np.tri(TOKENS, KEYS, dtype=bool)


def kinds(shapes, mask=None, **attrs) -> set[str]:
    """Return the kinds of ops of a model, which computes what onnxruntime does."""
    ports = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in zip("qkv", shapes, strict=True)
    ]
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, shapes[0])
    masks = [numpy_helper.from_array(mask, "mask")] if mask is not None else []
    names = ["q", "k", "v", *(item.name for item in masks)]
    node = helper.make_node("Attention", names, ["y"], **attrs)
    graph = helper.make_graph([node], "attention", ports, [result], masks)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)
    onnx.checker.check_model(proto)
    loaded = load_onnx(proto)
    arrays = [RNG.standard_normal(shape).astype(np.float32) for shape in shapes]
    given = dict(zip("qkv", arrays, strict=True))
    (wanted,) = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, given)
    orders = loaded.attrs.get("onnx_order", {})
    feeds = {n: a.transpose(orders.get(n, range(a.ndim))) for n, a in given.items()}
    (found,) = Session(loaded).run(feeds).values()
    found = found.transpose(np.argsort(orders.get("y", range(found.ndim))))
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
    return {op.kind for op in loaded}


@pytest.mark.parametrize("mask", [None, ADDED, HIDDEN])
@pytest.mark.parametrize(("shapes", "attrs"), [(BATCH_OF_HEADS, {}), (JOINED, SPLIT)])
def test_parts(shapes, attrs, mask):
    found = kinds(shapes, mask, **attrs)
    assert {"matmul", "softmax"} <= found and "onnx" not in found


@pytest.mark.parametrize("attrs", [{"is_causal": 1}, {"scale": 0.3}])
def test_scale_and_order(attrs):
    square = [(1, HEADS, KEYS, SIZE)] * 3
    assert "onnx" not in kinds(square, **attrs)


def test_what_stays_whole():
    assert "onnx" in kinds(BATCH_OF_HEADS, softcap=2.0)
    shared = [(1, 2 * HEADS, TOKENS, SIZE), *BATCH_OF_HEADS[1:]]
    assert "onnx" in kinds(shared)
