# SPDX-License-Identifier: Apache-2.0
"""Softmaxes that are spelled out, and scores with what changes none of their probabilities."""

import numpy as np
import pytest
from test_feature_norms import kinds, parsed

SIZE = (1, 3, 5, 6)
ARRAYS = {
    "last": np.int64([3]), "row": np.int64([1, 3, 5, 1]), "to": np.int64(SIZE),
    "side": np.float32([[[[0.5]] * 5] * 3]), "each": np.linspace(0, 1, 6, dtype=np.float32),
    "second": np.int64([1]),
}  # fmt: skip
MOST = "m = ReduceMax <axes = [3], keepdims = 1> (x)"
SUM = "s = ReduceSum <keepdims = 1> (e, last)"


def found(text: str, opset: int = 17) -> list[str]:
    """Return the kinds of ops, after their results were held against onnxruntime's."""
    return kinds(parsed(text, SIZE, opset, **ARRAYS))


@pytest.mark.parametrize(
    "text",
    [
        f"{MOST} z = Sub(x, m) e = Exp(z) {SUM} y = Div(e, s)",
        f"e = Exp(x) {SUM} y = Div(e, s)",
        # as JAX writes it
        "m = ReduceMax <axes = [3], keepdims = 0> (x) n = Reshape(m, row) o = Expand(n, to) "
        "z = Sub(x, o) e = Exp(z) s = ReduceSum <keepdims = 0> (e, last) t = Reshape(s, row) "
        "u = Expand(t, to) y = Div(e, u)",
        "z = Add(side, x) y = Softmax <axis = 3> (z)",
    ],
)
def test_it_is_one_operator(text):
    assert found(text) in (["softmax"], ["transpose", "softmax", "transpose"])


def test_the_maximum_less_scores_is_the_softmax_of_negated_ones():
    """Attention between channels, DANet's."""
    made = found(f"{MOST} o = Expand(m, to) z = Sub(o, x) y = Softmax <axis = 3> (z)")
    assert "neg" in made
    assert not {"reduction_max", "sub", "onnx"} & {*made}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("z = Add(x, each) y = Softmax <axis = 3> (z)", "it differs along the axis"),
        ("z = Add(x, side) y = Softmax <axis = 2> (z)", "it may differ along the axis"),
    ],
)
def test_a_shift_that_stays(text, why):
    assert {"add", "scale"} & {*found(text)}, why


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("e = Exp(x) s = ReduceSum <keepdims = 1> (e, second) y = Div(x, s)", "of something else"),
        (f"e = Exp(x) {SUM} q = Div(e, s) y = Add(q, e)", "the powers have another reader"),
        ("e = Exp(x) s = ReduceSum <keepdims = 1> (e) y = Div(e, s)", "it is over all axes"),
    ],
)
def test_a_quotient_that_stays(text, why):
    assert "softmax" not in found(text), why
