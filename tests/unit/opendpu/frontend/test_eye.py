# SPDX-License-Identifier: Apache-2.0
"""Matrices of ``EyeLike``, by which attention leaves out what a token knows of itself."""

import numpy as np
import onnx
import pytest
from test_feature_norms import kinds, parsed
from test_multiplied_norms import labels

SIZE = (1, 5, 6)
MASKED = """
    e = EyeLike <{attributes}> (like)
    c = Cast <to = 9> (e)
    y = Where(c, x, far)"""


@pytest.mark.parametrize("attributes", ["dtype = 9", "dtype = 6, k = 1", "k = -2", "dtype = 10"])
@pytest.mark.parametrize("kind", [np.int32, np.float32])
def test_it_is_a_constant(attributes, kind):
    given = {"like": np.zeros((5, 6), kind), "far": np.float32(-9)}
    proto = parsed(MASKED.format(attributes=attributes), SIZE, 17, **given)
    onnx.checker.check_model(proto)
    assert labels(proto) == ["Where"]
    kinds(proto)


def test_it_has_the_shape_and_type_of_what_is_computed():
    body = "s = Squeeze(x, front) e = EyeLike <k = 1> (s) y = Mul(x, e)"
    kinds(parsed(body, SIZE, 17, front=np.array([0])))
