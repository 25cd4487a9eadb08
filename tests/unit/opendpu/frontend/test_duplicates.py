# SPDX-License-Identifier: Apache-2.0
"""Means that a model computes twice, as ``torch.var`` beside ``torch.mean`` has them."""

import numpy as np
import pytest
from test_feature_norms import kinds, parsed
from test_multiplied_norms import labels

from opendpu.frontend import load_onnx

SIZE = (1, 5, 6, 8)
NORM = """
    m = ReduceMean <axes = [1]> (x)
    d = Sub(x, m)
    q = Mul(d, d)
    v = ReduceMean <axes = [1]> (q)
    n = ReduceMean <keepdims = 1, axes = [{axis}]> ({other})
    c = Sub({other}, n)
    e = Add(v, epsilon)
    r = Sqrt(e)
    y = Div(c, r)"""
BY_INPUT = """
    m = ReduceMean (x, axes)
    d = Sub(x, m)
    q = Mul(d, d)
    v = ReduceMean (q, axes)
    n = ReduceMean <keepdims = 1> (x, again)
    c = Sub(x, n)
    e = Add(v, epsilon)
    r = Sqrt(e)
    y = Div(c, r)"""
EPSILON = np.float32(1e-3)


def model(axis: int = 1, other: str = "x", end: str = ""):
    return parsed(NORM.format(axis=axis, other=other) + end, SIZE, 14, epsilon=EPSILON)


def test_it_is_one_normalization():
    proto = model()
    assert labels(proto) == ["LayerNormalization"]
    kinds(proto)


@pytest.mark.parametrize("again", [1, -3])
def test_axes_that_are_inputs_are_compared(again):
    axes = {"axes": np.array([1]), "again": np.array([again])}
    proto = parsed(BY_INPUT, SIZE, 18, epsilon=EPSILON, **axes)
    assert (labels(proto) == ["LayerNormalization"]) == (again == 1)
    kinds(proto)


@pytest.mark.parametrize(("axis", "other"), [(2, "x"), (1, "q")])
def test_other_means_stay(axis, other):
    proto = model(axis, other)
    assert "LayerNormalization" not in labels(proto)
    kinds(proto)


def test_outputs_stay():
    proto = model()
    proto.graph.output.append(
        type(proto.graph.output[0])(name="c", type=proto.graph.output[0].type)
    )
    assert {"y", "c"} <= set(load_onnx(proto).outputs)
    kinds(proto)
