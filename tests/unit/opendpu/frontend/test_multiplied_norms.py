# SPDX-License-Identifier: Apache-2.0
"""LayerNorm as TensorFlow and Keras write it, with a factor for every row."""

import numpy as np
import pytest
from test_feature_norms import floats, kinds, parsed

from opendpu.frontend import load_onnx
from opendpu.ops.foreign import KIND, label_of

SIZE = (1, 5, 6, 8)
NORM = """
    m = ReduceMean <axes = [{axis}]> (x)
    d = Sub(x, m)
    q = Mul(d, d)
    v = ReduceMean <axes = [{axis}]> (q)
    e = Add(v, epsilon)
    r = Sqrt(e)
    i = Reciprocal(r)
    {end}"""
NEGATED = """
    f = Mul(i, scale)
    a = Mul(x, f)
    n = Neg(m)
    b = Mul(n, f)
    c = Add(b, bias)
    y = Add(a, c)"""
SUBTRACTED = """
    f = Mul(scale, i)
    a = Mul(f, x)
    b = Mul(m, f)
    c = Sub(bias, b)
    y = Add(c, a)"""
PLAIN = "a = Mul(x, i) b = Mul(m, i) y = Sub(a, b)"
PLAIN_NEGATED = "n = Neg(m) a = Mul(x, i) b = Mul(n, i) y = Add(a, b)"
SCALED = "f = Mul(i, scale) a = Mul(x, f) b = Mul(m, f) y = Sub(a, b)"


def model(end: str, *, axis: int = -1, channels: int = SIZE[-1], shape: tuple[int, ...] = (-1,)):
    arrays = {"epsilon": np.float32(1e-3), "scale": floats(channels), "bias": floats(channels)}
    used = {
        n: a.reshape(shape if a.ndim else a.shape) for n, a in arrays.items() if n in end + NORM
    }
    return parsed(NORM.format(end=end, axis=axis), SIZE, 14, **used)


def labels(proto) -> list[str]:
    return [label_of(node) for node in load_onnx(proto) if node.kind == KIND]


@pytest.mark.parametrize("end", [NEGATED, SUBTRACTED, PLAIN, PLAIN_NEGATED, SCALED])
def test_it_is_one_layer_norm(end):
    assert labels(model(end)) == ["LayerNormalization"]
    assert kinds(model(end)) == [KIND]


def test_it_is_one_over_channels():
    proto = model(NEGATED, axis=1, channels=SIZE[1], shape=(1, -1, 1, 1))
    assert labels(proto) == ["LayerNormalization"]
    kinds(proto)


@pytest.mark.parametrize(
    ("end", "why"),
    [
        (NEGATED.replace("Mul(n, f)", "Mul(n, i)"), "the mean has another factor"),
        (SUBTRACTED.replace("Sub(bias, b)", "Sub(b, bias)"), "the mean is added"),
        (PLAIN.replace("Sub(a, b)", "Sub(b, a)"), "the tensor is subtracted"),
        (PLAIN.replace("Mul(m, i)", "Mul(v, i)"), "it is no mean"),
        (PLAIN.replace("y = Sub(a, b)", "g = Sub(a, b) y = Add(g, a)"), "a product is read twice"),
        (NEGATED.replace("Mul(x, f)", "Mul(d, f)"), "the mean is subtracted twice"),
    ],
)  # fmt: skip
def test_near_misses(end, why):
    assert "LayerNormalization" not in labels(model(end)), why
    kinds(model(end))
