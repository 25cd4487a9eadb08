# SPDX-License-Identifier: Apache-2.0
"""From a model of float16 to the same one of float32, which quantizers take.

python -m vai_q_onnx.tools.convert_fp16_to_fp32 --input HALF.onnx --output SINGLE.onnx
"""

import onnx
from onnx import TensorProto, numpy_helper

from opendpu.frontend.model_file import all_nodes, inner_graphs
from vai_q_onnx.tools.command import loaded, run


def convert_fp16_to_fp32(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model whose tensors of float16 are of float32; ``model`` stays as it is."""
    made = loaded(model)
    _convert(made.graph)
    for node in all_nodes(made.graph.node):
        for attribute in node.attribute:
            for graph in inner_graphs(attribute):
                _convert(graph)
            if attribute.HasField("t"):
                _widen(attribute.t)
            if node.op_type == "Cast" and attribute.name == "to" and _is_half(attribute.i):
                attribute.i = TensorProto.FLOAT
    return made


def _convert(graph: onnx.GraphProto) -> None:
    for tensor in graph.initializer:
        _widen(tensor)
    for item in (*graph.input, *graph.output, *graph.value_info):
        if _is_half(item.type.tensor_type.elem_type):
            item.type.tensor_type.elem_type = TensorProto.FLOAT


def _widen(tensor: TensorProto) -> None:
    if _is_half(tensor.data_type):
        values = numpy_helper.to_array(tensor).astype("float32")
        tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))


def _is_half(kind: int) -> bool:
    return bool(kind == TensorProto.FLOAT16)


if __name__ == "__main__":
    run(convert_fp16_to_fp32, source="--input", target="--output")
