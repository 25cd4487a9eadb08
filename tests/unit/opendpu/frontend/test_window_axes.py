# SPDX-License-Identifier: Apache-2.0
"""Windows over more axes than two that are moved along two: as JAX writes those of a map."""

import numpy as np
import pytest
from test_feature_norms import kinds, parsed

from opendpu.frontend.lowering import load_onnx
from opendpu.ops.session import Session

SIZE = (1, 8, 9, 4)
"""A map with its channels last."""
LIFTED = "u = Unsqueeze(x, front) "
LOWERED = "y = Squeeze(p, front)"


def found(window: str, size: tuple[int, ...] = SIZE, **arrays: np.ndarray) -> list[str]:
    """Return the kinds of ops, after their results were held against ONNX's reference."""
    lifted = size == SIZE
    text = f"{LIFTED}p = {window} {LOWERED}" if lifted else f"u = Relu(x) y = {window}"
    return kinds(parsed(text, size, 17, front=np.int64([0, 1]), **arrays))


def test_the_largest_of_a_window(rng):
    """Neither onnxruntime nor ONNX's reference computes a maximum over four axes."""
    window = "MaxPool <kernel_shape = [1, 3, 2, 1], strides = [1, 2, 2, 1]> (u)"
    proto = parsed(f"{LIFTED}p = {window} {LOWERED}", SIZE, 17, front=np.int64([0, 1]))
    graph = load_onnx(proto)
    assert [node.kind for node in graph if node.kind.startswith("max")] == ["maxpool2d"]
    x = rng.standard_normal(SIZE).astype(np.float32)
    given = x.transpose(graph.attrs.get("onnx_order", {}).get("x", range(4)))
    (y,) = Session(graph).run({"x": given.reshape(graph["x"].shape)}).values()
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 2), (1, 2))[:, ::2, ::2]
    np.testing.assert_array_equal(y.reshape(1, 3, 4, 4), windows.max((-1, -2)))


def test_the_sum_of_a_window_with_padding():
    window = "strides = [1, 2, 1, 1], pads = [0, 1, 0, 0, 0, 1, 2, 0]"
    made = found(f"Conv <{window}> (u, w)", w=np.ones((1, 1, 1, 3, 3, 1), np.float32))
    assert "depthwise-conv2d" in made and "onnx" not in made


@pytest.mark.parametrize("bias", [False, True])
def test_a_window_along_one_axis(bias):
    arrays = {"w": np.float32([1, 2, 3]).reshape(1, 1, 1, 3, 1, 1)}
    arrays |= {"b": np.float32([0.5])} if bias else {}
    made = found(f"Conv({', '.join(['u', *arrays])})", **arrays)
    assert "depthwise-conv2d" in made and "onnx" not in made


def test_a_window_over_one_frame_of_a_video():
    made = found(
        "MaxPool <kernel_shape = [1, 2, 2], strides = [1, 2, 2]> (u)", size=(1, 3, 5, 6, 8)
    )
    assert "maxpool2d" in made and "onnx" not in made


def test_a_window_over_several_frames_stays():
    made = found(
        "MaxPool <kernel_shape = [2, 2, 2], strides = [1, 2, 2]> (u)", size=(1, 3, 5, 6, 8)
    )
    assert "onnx" in made
