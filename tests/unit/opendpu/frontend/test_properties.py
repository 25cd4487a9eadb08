# SPDX-License-Identifier: Apache-2.0
"""Random attributes of every operator: the converted graph gives what onnxruntime gives."""

import numpy as np
import onnxruntime
import pytest
from operator_draws import DRAWS, floats
from oracle import evaluate_float

from opendpu.frontend import load_onnx
from opendpu.frontend.ops import HANDLERS
from opendpu.ir import to_xir
from opendpu.ops.quantizing import OPERATORS, ROUNDINGS

ROUNDS = 12
"""Draws an operator."""


def test_every_operator_is_drawn():
    assert set(DRAWS) == set(HANDLERS) - {*OPERATORS, *ROUNDINGS}


@pytest.mark.parametrize("op", sorted(DRAWS))
def test_operator(rng, op):
    for _ in range(ROUNDS):
        case = DRAWS[op](rng)
        print(op, case)
        model = case.model()
        graph = load_onnx(model)
        to_xir(graph)  # every op is as XIR defines it
        order = graph.attrs.get("onnx_order", {})
        x = floats(rng, *case.shape)
        wanted = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})
        found = evaluate_float(graph, {"x": x.transpose(order["x"]) if "x" in order else x})
        for name, array in zip(case.outputs, wanted, strict=True):
            straight = array.transpose(order[name]) if name in order else array
            got = found[name].reshape(straight.shape or (1,))
            np.testing.assert_allclose(got, straight, rtol=1e-4, atol=1e-4)
