# SPDX-License-Identifier: Apache-2.0
"""Models whose pairs have any scale, and what becomes of them in integers beside onnxruntime."""

import numpy as np
import onnx
import onnxruntime
import qdq

from opendpu.frontend import load_onnx
from opendpu.integer import IntegerNetwork
from opendpu.ir import FixedGraph
from opendpu.quantize import complete


def compared(model: onnx.ModelProto) -> tuple[FixedGraph, np.ndarray]:
    """Return the integers' graph of a model, and by how many units its result is off."""
    shape = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
    sample = np.random.default_rng(5).normal(0, 1, shape).astype(np.float32)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    (wanted,) = session.run(None, {"x": sample})
    graph = complete(load_onnx(model, any_scale=True))
    network = IntegerNetwork(graph, scaled=True)
    (given,) = (n.quantization for n in network.graph if n.kind == "data-fix")
    integers = np.rint(sample / np.float32(given.scale[0])) + given.zero_point[0]
    (found,) = network.run(
        {"x": np.clip(integers, -128, 127).astype(np.int8).transpose(0, 2, 3, 1)}
    ).values()
    made = network.graph[network.graph.outputs[0]].quantization
    units = np.rint(wanted / made.scale[0] + made.zero_point[0]).transpose(0, 2, 3, 1)
    return network.graph, np.abs(found.astype(int) - units)


class Pairs(qdq.QdqModel):
    """A model in the making whose pairs have any scale, and perhaps bounds between the two."""

    def pair(self, x, scale, zero, bounds=None, axis=None) -> str:
        zero, attrs = np.asarray(zero), {} if axis is None else {"axis": axis}
        given = [self.constant(np.asarray(scale, np.float32)), self.constant(zero)]
        stored = self.node("QuantizeLinear", x, *given, **attrs)
        if bounds is not None:
            ends = [self.constant(np.array(bound, zero.dtype)) for bound in bounds]
            stored = self.node("Clip", stored, *ends)
        return self.node("DequantizeLinear", stored, *given, **attrs)

    def spread(self, *shape) -> tuple[np.ndarray, np.ndarray]:
        """Return weights and the scale of each output channel."""
        values = self.random.normal(0, 0.3, shape).astype(np.float32)
        return values, np.abs(values).max(axis=(1, 2, 3)) / np.float32(127)
