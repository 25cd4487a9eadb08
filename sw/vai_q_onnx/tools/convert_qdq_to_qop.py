# SPDX-License-Identifier: Apache-2.0
"""From quantizing operators around float ones to operators on integers: QLinearConv and the like.

python -m vai_q_onnx.tools.convert_qdq_to_qop --input_model QDQ.onnx --output_model QOP.onnx

onnxruntime's own optimizer does it. It wants biases of 32 bits in units of the sum, which those of
the DPU are whole multiples of, and no activation in between: a ReLU of what is rounded is the
rounded ReLU. What has no operator on integers stays as it is; operators on integers round halves to
even.
"""

import pathlib
import tempfile
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

from vai_q_onnx.tools import command

LAYERS = ("Conv", "ConvTranspose", "Gemm")
INTEGER_RELU = 14
"""Operator set whose Relu takes integers."""


def convert_qdq_to_qop(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model with operators on integers; ``model`` stays as it is."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    _Rewriting(made).run()
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "optimized.onnx"
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
        options.optimized_model_filepath = str(path)
        options.log_severity_level = 3
        options.add_session_config_entry("session.qdqisint8allowed", "1")
        onnxruntime.InferenceSession(
            made.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        return onnx.load(path)


class _Rewriting:
    """Makes a model one that the optimizer understands, in place."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self._graph = model.graph
        self._opset = max(item.version for item in model.opset_import if not item.domain)
        self._nodes = [_copy(node) for node in model.graph.node]
        self._values = {item.name: numpy_helper.to_array(item) for item in model.graph.initializer}
        self._makers: dict[str, Any] = {}
        self._readers: dict[str, list[Any]] = {}
        for node in self._nodes:
            self._makers |= dict.fromkeys(node.output, node)
            for name in node.input:
                self._readers.setdefault(name, []).append(node)

    def run(self) -> None:
        """Rewrite constants, layers and activations."""
        for node in list(self._nodes):
            if node.op_type == "QuantizeLinear" and node.input[0] in self._values:
                self._fold(node)
        for node in list(self._nodes):
            if node.op_type in LAYERS and len(node.input) == 3:
                self._widen(node)
            elif node.op_type == "Relu" and self._opset >= INTEGER_RELU:
                self._round_first(node)
        del self._graph.node[:]
        self._graph.node.extend(self._nodes)

    def _place(self, node: onnx.NodeProto) -> int:
        return next(i for i, other in enumerate(self._nodes) if other is node)

    def _fold(self, rounding: onnx.NodeProto) -> None:
        """Make integers of a constant that is rounded."""
        given = [self._values.get(name) for name in rounding.input]
        if len(given) < 3 or any(array is None for array in given):
            return
        values, scale, zero = given
        assert values is not None and scale is not None and zero is not None
        axis = next((item.i for item in rounding.attribute if item.name == "axis"), 1)
        spread = [1] * values.ndim
        if scale.ndim and scale.size > 1:
            spread[axis] = -1
        low, high = np.iinfo(zero.dtype).min, np.iinfo(zero.dtype).max
        steps = np.rint(values / scale.reshape(spread)) + zero.reshape(spread)
        self._values[rounding.output[0]] = integers = steps.clip(low, high).astype(zero.dtype)
        self._graph.initializer.append(numpy_helper.from_array(integers, rounding.output[0]))
        del self._nodes[self._place(rounding)]

    def _widen(self, layer: onnx.NodeProto) -> None:
        """Give a layer a bias of 32 bits in units of its sums."""
        source, weights, bias = (self._makers.get(name) for name in layer.input)
        of_source, of_weights = self._scale(source), self._scale(weights)
        values = self._real(bias)
        if values is None or of_source is None or of_weights is None:
            return
        step = np.multiply(of_source, of_weights, dtype=np.float64)
        integers = np.rint(values / step).clip(-(2**31), 2**31 - 1).astype(np.int32)
        name = f"{layer.input[2]}_int32"
        for suffix, array in (("", integers), ("_scale", np.asarray(step, np.float32))):
            self._graph.initializer.append(numpy_helper.from_array(array, f"{name}{suffix}"))
        axis: dict[str, Any] = {"axis": 0} if step.ndim else {}
        made = helper.make_node(
            "DequantizeLinear", [name, f"{name}_scale"], [f"{name}_real"], f"{name}_real", **axis
        )
        self._nodes.insert(self._place(layer), made)
        if len(self._readers[layer.input[2]]) == 1:
            assert bias is not None
            del self._nodes[self._place(bias)]
        layer.input[2] = made.output[0]

    def _round_first(self, relu: onnx.NodeProto) -> None:
        """Let a ReLU come behind the rounding of its result, on integers."""
        readers = self._readers.get(relu.output[0], [])
        if len(readers) != 1 or readers[0].op_type != "QuantizeLinear":
            return
        (rounding,) = readers
        zero = self._values.get(rounding.input[2]) if len(rounding.input) > 2 else None
        alone = len(self._readers.get(relu.input[0], [])) == 1
        if not alone or zero is None or zero.dtype != np.int8 or np.any(zero):
            return
        result = rounding.output[0]
        rounding.input[0], rounding.output[0] = relu.input[0], f"{result}_before_relu"
        relu.input[0], relu.output[0] = rounding.output[0], result
        del self._nodes[self._place(relu)]
        self._nodes.insert(self._place(rounding) + 1, relu)

    def _scale(self, node: onnx.NodeProto | None) -> Any:
        """Return the scale of what dequantizes; nothing of anything else."""
        if node is None or node.op_type != "DequantizeLinear":
            return None
        return self._values.get(node.input[1])

    def _real(self, node: onnx.NodeProto | None) -> Any:
        """Return the numbers of a constant bias; nothing where it has 32 bits already."""
        scale = self._scale(node)
        if node is None or scale is None or node.input[0] not in self._values:
            return None
        integers = self._values[node.input[0]]
        return None if integers.dtype == np.int32 else integers.astype(np.float64) * scale


def _copy(node: onnx.NodeProto) -> onnx.NodeProto:
    made = onnx.NodeProto()
    made.CopyFrom(node)
    return made


if __name__ == "__main__":
    command.run(convert_qdq_to_qop)
