# SPDX-License-Identifier: Apache-2.0
"""What replaces NaN behind a softmax goes where there can be none, and stays where there can be."""

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from opendpu.frontend import load_onnx
from opendpu.ops.session import Session

ATTENTION = """
    <ir_version: 8, opset_import: ["" : 18]>
    g (float[1, 2, 4, 8] q, float[1, 2, 8, 4] k) => (float[1, 2, 4, 4] y) <float zero = {{0}}> {{
        scores = MatMul(q, k)
        {between}
        s = Softmax <axis = {axis}> (x)
        check = IsNaN(s)
        {end}
    }}"""
GUARD = "y = Where(check, zero, s)"
CAUSAL = np.triu(np.full((4, 4), -np.inf, np.float32), 1)


def model(between: str, end: str = GUARD, axis: int = -1, **arrays: np.ndarray) -> onnx.ModelProto:
    proto = onnx.parser.parse_model(ATTENTION.format(between=between, end=end, axis=axis))
    for name, array in arrays.items():
        proto.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    return proto


def guarded(proto: onnx.ModelProto) -> bool:
    """Return whether anything but a softmax reads the scores; results are compared, too."""
    graph = load_onnx(proto)
    rng = np.random.default_rng(0)
    given = {
        "q": rng.standard_normal((1, 2, 4, 8)).astype(np.float32),
        "k": rng.standard_normal((1, 2, 8, 4)).astype(np.float32),
    }
    order = graph.attrs.get("onnx_order", {})
    found = Session(graph).run({n: a.transpose(order.get(n, range(4))) for n, a in given.items()})
    y = found["y"].transpose(np.argsort(order["y"])) if "y" in order else found["y"]
    with np.errstate(invalid="ignore"):
        wanted = ReferenceEvaluator(proto).run(["y"], given)[0]
    np.testing.assert_allclose(y, wanted, rtol=1e-5, atol=1e-6)
    return any(node.kind == "onnx" for node in graph)


@pytest.mark.parametrize(
    ("between", "arrays"),
    [
        ("x = Identity(scores)", {}),
        ("x = Mul(scores, half)", {"half": np.float32(0.5)}),
        ("x = Div(scores, root)", {"root": np.float32(2.83)}),
        ("x = Add(scores, bias)", {"bias": np.full((1, 2, 4, 4), -3e38, np.float32)}),
        ("x = Add(scores, causal)", {"causal": CAUSAL}),
    ],
)
def test_guards_that_replace_nothing_go(between, arrays):
    assert not guarded(model(between, **arrays))


@pytest.mark.parametrize(
    ("between", "end", "axis", "arrays"),
    [
        ("x = Add(scores, hiding)", GUARD, -1, {"hiding": np.full((4, 4), -np.inf, np.float32)}),
        ("x = Add(scores, causal)", GUARD, 2, {"causal": CAUSAL}),
        ("t = Add(scores, c)\n x = Transpose <perm = [0, 1, 3, 2]> (t)", GUARD, -1, {"c": CAUSAL}),
        ("x = Sqrt(scores)", GUARD, -1, {}),
        ("x = Identity(scores)", "w = Where(check, zero, s)\n y = Add(w, s)", -1, {}),
        ("x = Identity(scores)", "y = Where(check, s, zero)", -1, {}),
    ],
)
def test_near_misses_stay(between, end, axis, arrays):
    assert guarded(model(between, end, axis, **arrays))
