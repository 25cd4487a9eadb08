# SPDX-License-Identifier: Apache-2.0
"""One float model for all quantizers: shapes inferred, constants folded, weights as float32."""

import pathlib
from collections.abc import Sequence

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator
from onnxruntime.quantization.shape_inference import quant_pre_process


def prepare(source: pathlib.Path, target: pathlib.Path, shape: Sequence[int] = ()) -> None:
    """Write a model as onnxruntime recommends it to be before quantization.

    Its input gets a shape where one is given.

    Weights that are stored as integers (MLPerf Tiny's keyword spotting) become constants: AMD
    Quark's equalization fails on them.
    """
    bound = onnx.load(str(source))
    for axis, size in zip(bound.graph.input[0].type.tensor_type.shape.dim, shape, strict=False):
        axis.dim_value = size
    if shape:
        del bound.graph.value_info[:]
    _count_axes_from_the_front(bound)
    onnx.save(bound, str(target))
    quant_pre_process(str(target), str(target))
    model = onnx.load(str(target))
    constants = {c.name: c for c in model.graph.initializer}
    for node in list(model.graph.node):
        if node.op_type == "DequantizeLinear" and all(name in constants for name in node.input):
            given = {name: numpy_helper.to_array(constants[name]) for name in node.input}
            (value,) = ReferenceEvaluator(node).run(None, given)
            model.graph.initializer.append(
                numpy_helper.from_array(np.asarray(value), node.output[0])
            )
            model.graph.node.remove(node)
    used = {name for node in model.graph.node for name in node.input}
    for constant in [c for c in model.graph.initializer if c.name not in used]:
        model.graph.initializer.remove(constant)
    onnx.save(model, str(target))


def _count_axes_from_the_front(model: onnx.ModelProto) -> None:
    """Let concatenations say their axis from the front, in place.

    onnxruntime's symbolic shape inference insists on 0 for vectors of sizes (PP-OCR's
    classification network says -1).
    """
    known = onnx.shape_inference.infer_shapes(model).graph
    ranks = {
        value.name: len(value.type.tensor_type.shape.dim)
        for value in (*known.value_info, *known.input, *known.output)
        if value.type.tensor_type.HasField("shape")
    }
    for node in model.graph.node:
        for attribute in node.attribute:
            if node.op_type == "Concat" and attribute.name == "axis" and attribute.i < 0:
                attribute.i += ranks.get(node.output[0], 0)
