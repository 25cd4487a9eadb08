# SPDX-License-Identifier: Apache-2.0
"""Normalizations and differences of features without space, as heads of Keras have them."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx.parser import parse_model

from opendpu.frontend import load_onnx
from opendpu.ir import FloatGraph
from opendpu.ops.session import Session
from opendpu.quantize.transforms.fold import fold
from opendpu.quantize.transforms.subtract import subtract

SHAPES = {"w": (8, 8, 3, 3), "a_w": (288, 16), "k": (16,), "o": (16,), "q_w": (16, 8),
          "r_w": (16, 8), "y_w": (8, 4)}  # fmt: skip
HEAD = """c = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x, w)  r0 = Relu (c)
  f = Reshape (r0, flat)  a = MatMul (f, a_w)  b = Relu (a)  m = Mul (b, k)  n = Add (m, o)
  q = MatMul (n, q_w)  p = Relu (q)"""


def folded(body: str, rng: np.random.Generator, least: float = 0.5) -> FloatGraph:
    """Return the graph of a model after folding, which computes what onnxruntime does."""
    proto = parse_model(f"""<ir_version: 9, opset_import: ["" : 17]>
        g (float[1, 8, 6, 6] x) => (float[1, 4] y) <int64[2] flat = {{1, 288}}> {{ {body} }}""")
    for name, shape in SHAPES.items():
        values = rng.standard_normal(shape) * 0.3 if name != "k" else rng.uniform(least, 2, shape)
        tensor = onnx.numpy_helper.from_array(values.astype(np.float32), name)
        proto.graph.initializer.append(tensor)
    x = rng.standard_normal((1, 8, 6, 6)).astype(np.float32)
    (wanted,) = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, {"x": x})
    graph = load_onnx(proto)
    fold(graph)
    if subtract(graph):
        fold(graph)
    (found,) = Session(graph).run({"x": x.transpose(0, 2, 3, 1)}).values()
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)
    return graph


def kinds(graph: FloatGraph) -> list[str]:
    return [node.kind for node in graph if node.kind not in ("const", "data", "reshape")]


def test_a_scale_behind_an_activation_goes_into_the_layers_behind(rng) -> None:
    graph = folded(f"{HEAD}  y = MatMul (p, y_w)", rng)
    assert not {"depthwise-conv2d", "scale", "mul", "add"} & set(kinds(graph))


def test_factors_that_differ_much_are_a_layer_of_one_pixel(rng) -> None:
    graph = folded(f"{HEAD}  y = MatMul (p, y_w)", rng, least=1e-3)
    assert kinds(graph).count("depthwise-conv2d") == 1
    assert "scale" not in kinds(graph)


@pytest.mark.parametrize("first", ["p", "s"])
def test_differences_of_features_are_sums(first: str, rng) -> None:
    second = "s" if first == "p" else "p"
    graph = folded(
        f"{HEAD}  r = MatMul (n, r_w)  s = Relu (r)  d = Sub ({first}, {second})"
        "  e = Relu (d)  y = MatMul (e, y_w)", rng,
    )  # fmt: skip
    assert "sub" not in kinds(graph)
    assert kinds(graph).count("add") == 1


def test_differences_of_pooled_maps_are_sums(rng) -> None:
    """Both sides of a siamese network end in a reshape."""
    graph = folded(
        "c = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x, w)  r0 = Relu (c)"
        "  p = GlobalAveragePool (r0)  s = GlobalMaxPool (r0)"
        "  p1 = Flatten (p)  s1 = Flatten (s)  d = Sub (p1, s1)  y = MatMul (d, y_w)", rng,
    )  # fmt: skip
    assert "sub" not in kinds(graph)
    assert kinds(graph).count("add") == 1


def test_a_scale_at_the_end_of_a_network_stays() -> None:
    graph = FloatGraph("alone")
    graph.add("x", "data", (1, 8))
    graph.add_const("k", np.ones(8))
    graph.add("y", "scale", (1, 8), {"input": ["x"], "scale": ["k"]}, {"axis": 1})
    graph.outputs = ["y"]
    fold(graph)
    assert graph["y"].kind == "scale"
