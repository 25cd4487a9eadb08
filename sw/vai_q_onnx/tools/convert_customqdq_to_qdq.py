# SPDX-License-Identifier: Apache-2.0
"""From AMD's quantizing operators to ONNX's own QuantizeLinear and DequantizeLinear.

python -m vai_q_onnx.tools.convert_customqdq_to_qdq --input_model Q.onnx --output_model QDQ.onnx

Integers of 16 bits need operator set 21; in older models the operators for these are those of
onnxruntime's domain. Nothing else in the model changes.
"""

import os

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from opendpu.export.files import write_onnx
from opendpu.ops.quantizing import BOTH, DEQUANTIZE, OPERATORS, QUANTIZE
from opendpu_arch import outputs
from opendpu_arch.errors import UnsupportedError
from vai_q_onnx.tools.command import loaded, run

Path = str | os.PathLike[str]

DOMAINS = ("com.vai.quantize", "com.amd.quark", "ai.onnx.contrib")
"""Where AMD's quantizers for ONNX put their operators."""
RUNTIME = "com.microsoft"
NARROW = (TensorProto.INT8, TensorProto.UINT8)
WIDE = (TensorProto.INT16, TensorProto.UINT16)
WIDE_OPSET = 21
"""Operator set that brought 16 bits."""


def convert_customqdq_to_qdq(
    input_model: Path | onnx.ModelProto, output_model: Path | None = None
) -> onnx.ModelProto:
    """Return a quantized model with nothing but ONNX's own operators, which round halves to even.

    Parameters
    ----------
    input_model
        The model, which stays as it is, or its file.
    output_model
        Where the result is written, if at all.

    Raises
    ------
    UnsupportedError
        The model is not quantized, or to what ONNX's operators do not have.
    DPUError
        It cannot be read, or the result cannot be written.
    """
    given = () if isinstance(input_model, onnx.ModelProto) else (input_model,)
    if output_model is not None:
        outputs.check(output_model, inputs=given)
    made = loaded(input_model)
    _Conversion(made).run()
    if output_model is not None:
        write_onnx(made, output_model)
    return made


class _Conversion:
    """Replaces the operators of a model, in place."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self._model, self._graph = model, model.graph
        self._constants = {item.name: item for item in model.graph.initializer}
        self._opset = next(i.version for i in model.opset_import if not i.domain)
        self._used: set[str] = set()

    def run(self) -> None:
        """Convert all nodes."""
        quantizing = [node for node in self._graph.node if node.op_type in OPERATORS]
        if not quantizing:
            raise UnsupportedError(f"model {self._graph.name!r} is not quantized")
        nodes = [made for node in self._graph.node for made in self._converted(node)]
        del self._graph.node[:]
        self._graph.node.extend(nodes)
        self._drop_unread()
        kept = [i for i in self._model.opset_import if i.domain not in (*DOMAINS, RUNTIME)]
        kept += [helper.make_opsetid(RUNTIME, 1)] if RUNTIME in self._used else []
        del self._model.opset_import[:]
        self._model.opset_import.extend(kept)
        functions = [f for f in self._model.functions if f.domain not in DOMAINS]
        del self._model.functions[:]
        self._model.functions.extend(functions)

    def _converted(self, node: onnx.NodeProto) -> list[onnx.NodeProto]:
        if node.domain not in DOMAINS or node.op_type not in OPERATORS:
            self._used.add(node.domain)
            return [node]
        if node.op_type in QUANTIZE:
            return self._quantize(node, node.output[0])
        if node.op_type in DEQUANTIZE:
            return [self._dequantize(node, node.input[0])]
        assert node.op_type in BOTH
        stored = f"{node.output[0]}_quantized"
        return [*self._quantize(node, stored), self._dequantize(node, stored)]

    def _quantize(self, node: onnx.NodeProto, result: str) -> list[onnx.NodeProto]:
        """Return the node that gives integers; none where they are a constant of 32 bits."""
        source, scale, zero = node.input[:3]
        kind = self._type_of(node)
        if kind == TensorProto.INT32:
            self._store(node, source, scale, result)
            return []
        return [self._node("QuantizeLinear", node, [source, scale, zero], result, kind)]

    def _dequantize(self, node: onnx.NodeProto, source: str) -> onnx.NodeProto:
        kind = self._type_of(node)
        inputs = [source, *node.input[1:3]]
        if kind == TensorProto.INT32:
            inputs = inputs[:2]  # their zero point is zero
        return self._node("DequantizeLinear", node, inputs, node.output[0], kind)

    def _node(
        self, op_type: str, node: onnx.NodeProto, inputs: list[str], result: str, kind: int
    ) -> onnx.NodeProto:
        domain = RUNTIME if kind in WIDE and self._opset < WIDE_OPSET else ""
        self._used.add(domain)
        made = helper.make_node(op_type, inputs, [result], f"{result}/{op_type}", domain=domain)
        made.attribute.extend(item for item in node.attribute if item.name == "axis")
        return made

    def _type_of(self, node: onnx.NodeProto) -> int:
        """Return the type of a node's integers: that of its zero point."""
        zero = self._constants.get(node.input[2]) if len(node.input) > 2 else None
        kind = zero.data_type if zero is not None else 0
        if kind not in (*NARROW, *WIDE, TensorProto.INT32):
            said = TensorProto.DataType.Name(kind) if zero is not None else "no constant"
            raise UnsupportedError(
                f"node {node.name!r} ({node.op_type}) quantizes to {said}, but must quantize to "
                "integers of 8 or 16 bits, or constants to 32"
            )
        return kind

    def _store(self, node: onnx.NodeProto, source: str, scale: str, result: str) -> None:
        """Keep a constant as integers."""
        if source not in self._constants or scale not in self._constants:
            raise UnsupportedError(
                f"node {node.name!r} ({node.op_type}) quantizes to INT32 what is no constant"
            )
        values, step = (numpy_helper.to_array(self._constants[n]) for n in (source, scale))
        integers = np.rint(values.astype(np.float64) / step)
        limits = np.iinfo(np.int32)
        stored = np.clip(integers, limits.min, limits.max).astype(np.int32)
        self._graph.initializer.append(numpy_helper.from_array(stored, result))

    def _drop_unread(self) -> None:
        """Remove constants that nobody reads any more."""
        read = {name for node in self._graph.node for name in node.input}
        read.update(item.name for item in self._graph.output)
        kept = [item for item in self._graph.initializer if item.name in read]
        del self._graph.initializer[:]
        self._graph.initializer.extend(kept)


def custom_ops_infer_shapes(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model that says the shape and type of every tensor, behind quantizers too.

    ONNX knows no operators of other domains; these change nothing but the type of a tensor.
    """
    result, known = onnx.ModelProto(), onnx.ModelProto()
    result.CopyFrom(model)
    known.CopyFrom(model)
    kinds = {item.name: item.data_type for item in model.graph.initializer}
    for node in known.graph.node:
        if node.domain in (*DOMAINS, RUNTIME) and node.op_type in OPERATORS:
            zero = node.input[2] if len(node.input) > 2 else ""
            kind = kinds.get(zero, TensorProto.INT8)
            to = kind if node.op_type in QUANTIZE else TensorProto.FLOAT
            node.CopyFrom(helper.make_node("Cast", node.input[:1], node.output, to=to))
    inferred = onnx.shape_inference.infer_shapes(known, data_prop=True)
    del result.graph.value_info[:]
    result.graph.value_info.extend(inferred.graph.value_info)
    return result


if __name__ == "__main__":
    run(convert_customqdq_to_qdq)
