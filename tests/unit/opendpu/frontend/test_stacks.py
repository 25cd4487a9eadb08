# SPDX-License-Identifier: Apache-2.0
"""Sums over stacks of maps, as feature pyramids merge theirs: sums, and what stays a stack."""

import numpy as np
import pytest
from test_feature_norms import kinds, parsed

SIZE = (1, 4, 5, 6)
STACK = """
    a = Relu(x)
    b = Mul(x, two)
    p = Unsqueeze(a, at)
    q = Unsqueeze(b, at)
    r = Unsqueeze(x, at)
    s = Concat <axis = {axis}> (p, q, r)
    {end}"""
SUM = "y = ReduceSum <keepdims = 0> (s, at)"


def stacked(end: str = SUM, *, at: int = 0):
    text = STACK.format(end=end, axis=at)
    arrays = {"at": np.int64([at]), "two": np.float32(2), "last": np.int64([4])}
    return parsed(text, SIZE, 17, **arrays)


@pytest.mark.parametrize("at", [0, 2, 4])
def test_a_sum_over_a_stack_is_a_sum(at):
    found = kinds(stacked(at=at))
    assert "add" in found
    assert not {"concat", "reduction_sum", "onnx"} & {*found}


@pytest.mark.parametrize(
    ("proto", "why"),
    [
        (stacked("y = ReduceMean <axes = [0], keepdims = 0> (s)"), "it is no sum"),
        (stacked("t = ReduceSum <keepdims = 1> (s, at) y = Squeeze(t, at)"), "the axis stays"),
        (stacked("y = ReduceSum <keepdims = 0> (s, last)", at=0), "it is over another axis"),
        (
            stacked(f"{SUM.replace('y =', 't =')} u = ReduceMax <axes = [0], keepdims = 0> (s) "
                    "y = Add(t, u)"),
            "the stack has another reader",
        ),
    ],
)  # fmt: skip
def test_what_stays_a_stack(proto, why):
    if "another axis" in why:
        for dim, size in zip(proto.graph.output[0].type.tensor_type.shape.dim, (3, 1, 4, 5),
                             strict=True):  # fmt: skip
            dim.dim_value = size
    found = kinds(proto)
    assert found.count("add") == ("another reader" in why), why
