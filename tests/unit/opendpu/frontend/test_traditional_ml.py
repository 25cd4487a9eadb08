# SPDX-License-Identifier: Apache-2.0
"""Operators of ``ai.onnx.ml``, against onnxruntime's."""

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

from opendpu.frontend import load_onnx
from opendpu.frontend.source import read
from opendpu.ops.session import Session

ROWS, NUMBERS = 1, 6


def model(nodes, outputs, element=TensorProto.FLOAT):
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", element, (ROWS, NUMBERS))], outputs
    )
    opsets = [helper.make_opsetid("", 15), helper.make_opsetid("ai.onnx.ml", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def one(op_type, **attrs):
    return helper.make_node(op_type, ["x"], ["y"], domain="ai.onnx.ml", **attrs)


def expected(made, x):
    session = onnxruntime.InferenceSession(
        made.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run(None, {"x": x})


CASES = {
    "scaler": one("Scaler", offset=[0.5], scale=[2.0]),
    "scaler of columns": one(
        "Scaler", offset=[0.0, 1.0, 2.0, 3.0, 4.0, 5.0], scale=[1.0, 0.5, 2.0, 3.0, -1.0, 0.1]
    ),
    "binarizer": one("Binarizer", threshold=0.25),
    "regressor": one("LinearRegressor", coefficients=[0.5, -1, 2, 0, 1, 3], intercepts=[0.75]),
    "two targets": one(
        "LinearRegressor", coefficients=[0.1 * i for i in range(12)], intercepts=[0.5, -2.0],
        targets=2, post_transform="LOGISTIC",
    ),
    "softmax": one(
        "LinearRegressor", coefficients=[0.1 * i for i in range(18)], targets=3,
        post_transform="SOFTMAX",
    ),
    "probit": one(
        "LinearRegressor", coefficients=[0.1, 0.1, 0.1, 0, 0, 0], intercepts=[0.5],
        post_transform="PROBIT",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_is_what_onnxruntime_computes(rng, case):
    x = rng.uniform(0, 1, (ROWS, NUMBERS)).astype(np.float32)
    made = model([CASES[case]], [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
    found = Session(load_onnx(made)).run({"x": x})["y"]
    np.testing.assert_allclose(found, expected(made, x)[0], rtol=1e-5, atol=1e-6)


def test_scaled_integers(rng):
    x = rng.integers(-9, 9, (ROWS, NUMBERS))
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    made = model([CASES["scaler of columns"]], outputs, TensorProto.INT64)
    found = Session(load_onnx(made)).run({"x": x})["y"]
    np.testing.assert_allclose(found, expected(made, x)[0], rtol=1e-6)


@pytest.mark.parametrize(
    ("keys", "kind", "shown"),
    [
        ({"classlabels_int64s": [1, 2, 3, 5, 8, 9]}, TensorProto.INT64, "1, 2, 3, 5, …"),
        ({"classlabels_strings": ["a", "bé", "c", "d", "e", "f"]}, TensorProto.STRING,
         "'a', 'bé', 'c', 'd', …"),
    ],
)  # fmt: skip
def test_dictionaries_are_the_tensor_that_they_are_made_of(rng, keys, kind, shown):
    x = rng.uniform(0, 1, (ROWS, NUMBERS)).astype(np.float32)
    element = helper.make_map_type_proto(
        kind, helper.make_tensor_type_proto(TensorProto.FLOAT, None)
    )
    output = helper.make_value_info("y", helper.make_sequence_type_proto(element))
    nodes = [
        helper.make_node("Softmax", ["x"], ["p"], axis=1),
        helper.make_node("ZipMap", ["p"], ["y"], domain="ai.onnx.ml", **keys),
    ]
    made = model(nodes, [output])
    (note,) = read(made).notes
    assert note == (
        "output 'y' is a list of dictionaries in the file (ai.onnx.ml.ZipMap of "
        f"{shown}): here it is tensor 'p'"
    )
    found = Session(load_onnx(made)).run({"x": x})["y"]
    np.testing.assert_allclose(found[0], list(expected(made, x)[0][0].values()), rtol=1e-5)
