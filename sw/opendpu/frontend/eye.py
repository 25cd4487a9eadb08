# SPDX-License-Identifier: Apache-2.0
"""``EyeLike``, which is known where the shape is, and which onnxruntime has for few types."""

import math

import numpy as np
import onnx
from onnx import helper, numpy_helper

from opendpu.frontend.analysis import Analysis
from opendpu.frontend.def_use import attributes_of, with_origin
from opendpu.frontend.single_node import dtype_of
from opendpu.ops.foreign import DEFAULT_DOMAINS

LARGEST = 1 << 26
"""Elements of a matrix that is written as a constant, at most."""


def as_constant(node: onnx.NodeProto, analysis: Analysis) -> list[onnx.NodeProto] | None:
    """Return the matrix that a node makes as a constant; nothing for other nodes."""
    if node.op_type != "EyeLike" or node.domain not in DEFAULT_DOMAINS:
        return None
    (name,), attributes = node.input, attributes_of(node)
    shape, known = analysis.shape(name), analysis.constants.get(name)
    given = known.dtype if known is not None else dtype_of(analysis.types[name])
    if "dtype" in attributes:
        given = helper.tensor_dtype_to_np_dtype(attributes["dtype"])
    if shape is None or len(shape) != 2 or math.prod(shape) > LARGEST or given is None:
        return None
    matrix = np.eye(*shape, k=int(attributes.get("k", 0)), dtype=given)
    tensor = numpy_helper.from_array(matrix, node.output[0])
    made = helper.make_node("Constant", [], node.output, node.name, value=tensor)
    return [with_origin(made, node)]
