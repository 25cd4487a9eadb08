# SPDX-License-Identifier: Apache-2.0
"""Convolutions over volumes: two-dimensional ones, frame by frame, with the same numbers."""

import numpy as np
import pytest
from onnx_text import compare, parse
from test_fallback import kinds, with_weights

from opendpu.frontend.frames import MOST_FRAMES

SHAPES = {
    "w": (6, 4, 3, 3, 3), "v": (6, 6, 2, 3, 1), "one": (6, 6, 1, 1, 1), "deep": (4, 1, 3, 3, 3),
    "flat": (4, 2, 1, 3, 3), "bias": (6,), "each": (1, 6, 1, 1, 1), "frames": (1, 1, 5, 1, 1),
    "mean": (6,), "up": (6, 4, 3, 2, 2),
}  # fmt: skip
SAME = "pads=[1,1,1,1,1,1]"
FIRST = f"c = Conv<{SAME}>(x, w, bias) r = Relu(c) "


def volume(rng, body, frames=5, shape=(4, 6, 8)):
    """Compare what a body computes of ``x`` with onnxruntime; return the graph."""
    size = ",".join(map(str, (shape[0], frames, *shape[1:])))
    model = parse(f"g (float[1,{size}] x) => (float[N] y) {{ {body} }}")
    weights = {n: rng.standard_normal(s).astype(np.float32) / 3 for n, s in SHAPES.items()}
    weights |= {"scale": np.ones(6, np.float32), "variance": np.full(6, 0.5, np.float32)}
    weights |= {"pairs": np.array([1, 6, -1, 2, 6, 8])}
    read = body.replace("(", " ").replace(")", " ").replace(",", " ").split()
    with_weights(model, **{n: a for n, a in weights.items() if n in read})
    return compare(model, rng, tolerance=1e-4)


@pytest.mark.parametrize(
    ("body", "layers"),
    [
        ("y = Conv(x, w)", 3),
        (f"y = Conv<{SAME}>(x, w, bias)", 5),
        ("y = Conv<pads=[2,0,1,0,2,0], strides=[2,2,1]>(x, w)", 3),
        ("y = Conv<pads=[2,1,1,2,1,1], dilations=[2,1,1], strides=[1,2,2]>(x, w)", 5),
        ("y = Conv<group=2, pads=[0,1,1,0,1,1]>(x, flat)", 5),
        (FIRST + "d = Conv<pads=[0,1,0,1,1,0]>(r, v) s = Sigmoid(d) y = Mul(r, s)", 10),
        (FIRST + "d = Conv(r, one) b = BatchNormalization(d, scale, mean, mean, variance) "
                 "y = Add(b, r)", 10),
        (FIRST + "g = GlobalAveragePool(r) d = Conv(g, one) s = Sigmoid(d) y = Mul(r, s)", 6),
        (FIRST + "a = Mul(r, each) b = Concat<axis=1>(a, x) y = Relu(b)", 5),
        (FIRST + "p = MaxPool<kernel_shape=[2,2,2], strides=[2,2,2]>(r) y = Conv(p, one)", 6),
        (FIRST + "p = MaxPool<kernel_shape=[3,1,1], pads=[1,0,0,1,0,0]>(r) y = Neg(p)", 5),
        (FIRST + "f = Flatten(r) y = Neg(f)", 5),
        (FIRST + "a = Mul(r, frames) y = Relu(a)", 5),
        (FIRST + "p = AveragePool<kernel_shape=[2,3,2], strides=[1,2,2]>(r) y = Conv(p, one)", 9),
        (FIRST + "y = ReduceMean<axes=[2,3,4], keepdims=0>(r)", 5),
        (FIRST + "y = ReduceMean<axes=[-1,2,3]>(r)", 5),
        (f"y = Conv<group=4, {SAME}>(x, deep)", 13),
    ],
)  # fmt: skip
def test_a_layer_over_volumes_is_one_a_frame(rng, body, layers):
    graph = volume(rng, body)
    made = [node for node in graph if node.kind in ("conv2d", "depthwise-conv2d")]
    grouped = "group=" in body
    assert len(made) == layers or grouped
    assert all(node.origin.op_type != "Conv" for node in graph if node.kind == "onnx")


@pytest.mark.parametrize(
    "attributes",
    ["strides=[2,2,2]", "strides=[1,2,1], pads=[1,0,0,1,1,0]", "strides=[1,2,2], dilations=[2,1,1]",
     "strides=[2,1,1], output_padding=[1,0,0], pads=[1,0,0,1,0,0]"],
)  # fmt: skip
def test_transposed_kernels_make_frames(rng, attributes):
    graph = volume(rng, FIRST + f"t = ConvTranspose<{attributes}>(r, up) y = Relu(t)", frames=3)
    assert "onnx" not in kinds(graph)
    assert any(kind.startswith("transposed") for kind in kinds(graph))


def test_shapes_of_volumes_are_known(rng):
    """Programs view pairs of frames with sizes that they compute."""
    graph = volume(
        rng, FIRST + "s = Shape<start=0, end=1>(r) n = Reshape(r, pairs) y = Relu(n)", frames=6
    )
    assert "onnx" not in kinds(graph)


@pytest.mark.parametrize(
    ("body", "frames"),
    [
        ("y = Conv<auto_pad=\"SAME_UPPER\">(x, w)", 5),
        ("k = Sigmoid(x) y = Conv(x, k)", 3),
        ("y = Conv<pads=[9,0,0,9,0,0]>(x, w)", 5),
        ("y = Conv(x, w)", MOST_FRAMES + 3),
    ],
)  # fmt: skip
def test_what_is_not_written_frame_by_frame_stays(rng, body, frames):
    """Other padding, weights that are no constants, frames of nothing but padding, many frames."""
    assert "conv2d" not in kinds(volume(rng, body, frames))
