# SPDX-License-Identifier: Apache-2.0
"""Operators of ``ai.onnx.ml``, which scikit-learn's converter writes, in ONNX's own.

What scales numbers before a network, and linear models, have counterparts. The others stay, and are
the CPU's.
"""

import numpy as np
import onnx

from opendpu.frontend.node_writer import NodeWriter, Rule, rewritten
from opendpu.frontend.opsets import import_own

DOMAIN = "ai.onnx.ml"
ACTIVATIONS = {b"NONE": None, b"LOGISTIC": "Sigmoid", b"SOFTMAX": "Softmax"}
"""``post_transform`` of linear models: operators that compute it; others stay."""


def without_traditional_ml(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model with ONNX's own operators where they do the same.

    A model that has none is returned as it is.
    """
    made = rewritten(model, lambda node: RULES.get(node.op_type) if node.domain == DOMAIN else None)
    if made is not model:
        import_own(made)
    return made


def _floats(writer: NodeWriter) -> str:
    return writer.op("Cast", writer.given(0), to=onnx.TensorProto.FLOAT)


def _scaler(writer: NodeWriter) -> list[onnx.NodeProto]:
    """An offset, then a factor: one for all numbers of a row, or one for each."""
    offset, scale = (np.array(writer.attrs[name], np.float32) for name in ("offset", "scale"))
    moved = writer.op("Sub", _floats(writer), writer.constant(offset))
    writer.op("Mul", moved, writer.constant(scale))
    return writer.end()


def _binarizer(writer: NodeWriter) -> list[onnx.NodeProto]:
    above = writer.op("Greater", _floats(writer), writer.constant(writer.attrs.get("threshold", 0)))
    writer.op("Cast", above, to=onnx.TensorProto.FLOAT)
    return writer.end()


def _linear_regressor(writer: NodeWriter) -> list[onnx.NodeProto]:
    """A dense layer, a row of coefficients for each target."""
    targets = int(writer.attrs.get("targets", 1))
    activation = ACTIVATIONS[writer.attrs.get("post_transform", b"NONE")]
    weights = np.array(writer.attrs["coefficients"], np.float32).reshape(targets, -1)
    bias = np.array(writer.attrs.get("intercepts", [0.0]), np.float32)
    product = writer.op("MatMul", _floats(writer), writer.constant(weights.T.copy()))
    result = writer.op("Add", product, writer.constant(bias))
    if activation:
        writer.op(activation, result)
    return writer.end()


RULES: dict[str, Rule] = {
    "Binarizer": _binarizer, "LinearRegressor": _linear_regressor, "Scaler": _scaler,
}  # fmt: skip
