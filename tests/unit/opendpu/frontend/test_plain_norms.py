# SPDX-License-Identifier: Apache-2.0
"""Normalizations as jax2onnx writes them for Equinox: guards go where they change nothing."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx.parser import parse_model

from opendpu.frontend import load_onnx
from opendpu.ir import FloatGraph
from opendpu.ops.foreign import KIND, label_of
from opendpu.ops.session import Session

CONSTANT = """
  least = ReduceMin (x, axes)  most = ReduceMax (x, axes)  equal = Equal (least, most)
  nothing = Sub (mean, mean)  finite = Equal (nothing, zero)  constant = And (equal, finite)
  stable = Where (constant, zero, centred)
"""
VARIANCE = "square = Mul (stable, stable)  moment = ReduceMean (square, axes)"
DOUBLE = """
  square = Mul (stable, stable)  wide = Cast <to = 11> (square)  mean2 = ReduceMean (wide, axes)
  moment = Cast <to = 1> (mean2)
"""
END = "sum = Add (variance, epsilon)  root = Sqrt (sum)  y = Div (stable, root)"


def loaded(*lines: str) -> FloatGraph:
    """Return the graph of a model, which computes what onnxruntime does, of a constant row too."""
    proto = parse_model(
        f"""<ir_version: 9, opset_import: ["" : 18]>
        norm (float[1, 6, 8] given) => (float[1, 6, 8] y)
        <float epsilon = {{0.001}}, float zero = {{0}}, float one = {{0.5}}, int64[1] axes = {{2}}>
        {{ x = MatMul (given, weights) mean = ReduceMean (x, axes) centred = Sub (x, mean)
        {" ".join(lines)} }}"""
    )
    weights = np.random.default_rng(5).standard_normal((8, 8)).astype(np.float32)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(weights, "weights"))
    onnx.checker.check_model(proto)
    x = np.random.default_rng(6).standard_normal((1, 6, 8)).astype(np.float32)
    x[0, 2] = 0
    (wanted,) = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, {"given": x})
    graph = load_onnx(proto)
    (found,) = Session(graph).run({"given": x}).values()
    order = graph.attrs.get("onnx_order", {}).get("y", (0, 1, 2))
    found = found.transpose(np.argsort(order))
    np.testing.assert_allclose(found, wanted, atol=2e-5, rtol=1e-4)
    return graph


def labels(graph: FloatGraph) -> list[str]:
    """Return what stayed ONNX, and what else computes."""
    moves = ("data", "const", "reshape", "conv2d", "inner-product")
    return [label_of(n) if n.kind == KIND else n.kind for n in graph if n.kind not in moves]


@pytest.mark.parametrize("variance", [VARIANCE, DOUBLE])
@pytest.mark.parametrize("bound", ["variance = Max (moment, zero)", ""])
def test_guarded_normalizations_are_one_operator(variance: str, bound: str) -> None:
    (found,) = labels(
        loaded(CONSTANT, variance, bound, END if bound else END.replace("variance", "moment"))
    )
    assert "LayerNormalization" in found


@pytest.mark.parametrize(
    "lines",
    [
        (CONSTANT.replace("Where (constant, zero", "Where (constant, one"), VARIANCE),
        (CONSTANT.replace("ReduceMax (x, axes)", "ReduceMax (centred, axes)"), VARIANCE),
        (CONSTANT, VARIANCE.replace("square = Mul (stable, stable)", "square = Abs (stable)")),
    ],
)
def test_what_means_something_stays(lines: tuple[str, ...]) -> None:
    assert len(labels(loaded(*lines, "variance = Max (moment, zero)", END))) > 3
