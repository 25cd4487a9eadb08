# SPDX-License-Identifier: Apache-2.0
"""LayerNormalization over axes of which one has more than one element, and over more of them."""

import numpy as np
import pytest
from test_feature_norms import parsed

from opendpu.frontend.lowering import load_onnx
from opendpu.ops.foreign import is_normalization
from opendpu.ops.session import Session

SIZE = (1, 16, 1, 1)


def found(axis: int, size: tuple[int, ...] = SIZE, *, bias: bool = True) -> bool:
    """Return whether it is a normalization of rows, after it was held against its definition."""
    random = np.random.default_rng(3)
    shape = size[axis:]
    arrays = {name: random.standard_normal(shape).astype(np.float32) for name in ("s", "b")}
    text = f"y = LayerNormalization <axis = {axis}, epsilon = 0.001> (x, s{', b' * bias})"
    graph = load_onnx(parsed(f"r = Identity(x) {text}", size, 17, **arrays))
    x = random.standard_normal(size).astype(np.float32)
    order = graph.attrs.get("onnx_order", {})
    given = x.transpose(order["x"]) if "x" in order else x
    y = Session(graph).run({"x": given.reshape(graph["x"].shape)})["y"].reshape(size)
    axes = tuple(range(axis, len(size)))
    centred = x - x.mean(axes, keepdims=True)
    wanted = centred / np.sqrt((centred**2).mean(axes, keepdims=True) + 1e-3) * arrays["s"]
    np.testing.assert_allclose(y, wanted + arrays["b"] * bias, rtol=1e-4, atol=1e-4)
    (made,) = (node for node in graph if node.kind == "onnx")
    return is_normalization(made, len(made.shape))


@pytest.mark.parametrize("bias", [True, False])
def test_one_axis_is_normalized(bias):
    assert found(1, bias=bias)


def test_of_several_tokens():
    assert found(2, (1, 5, 8, 1))


def test_several_axes_stay():
    assert not found(1, (1, 4, 5, 1))
