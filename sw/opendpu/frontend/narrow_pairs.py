# SPDX-License-Identifier: Apache-2.0
"""Pairs of QuantizeLinear and DequantizeLinear around integers of fewer than eight bits.

numpy has no such integers, and neither has the DPU: they become bytes, with Clip to the ends of the
narrow type between the two nodes, which is how quantizers write them in older operator sets.
"""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from opendpu.frontend.def_use import with_origin
from opendpu.frontend.model_file import constants_of_tensors
from opendpu.ir import Array
from opendpu.ops.foreign import DEFAULT_DOMAINS
from opendpu.ops.quantizing import DEQUANTIZE_LINEAR, QUANTIZE_LINEAR

BYTE_OF = {
    "INT4": (TensorProto.INT8, -8, 7),
    "UINT4": (TensorProto.UINT8, 0, 15),
    "INT2": (TensorProto.INT8, -2, 1),
    "UINT2": (TensorProto.UINT8, 0, 3),
}
"""The byte that holds an integer of a narrow type, its least and its largest value."""
NARROW = {
    getattr(TensorProto, name): found
    for name, found in BYTE_OF.items()
    if hasattr(TensorProto, name)
}
"""The same by ONNX's number of the type; some are newer than some releases of onnx."""


def in_bytes(array: Array) -> Array:
    """Return integers of fewer than eight bits as bytes, others as they are."""
    name = array.dtype.name
    if name.upper() in BYTE_OF:
        return array.astype(np.uint8 if name.startswith("u") else np.int8)
    return array


def with_bytes(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model without QuantizeLinear to narrow integers; itself if it has none."""
    narrow = _Narrow(model.graph)
    if not narrow.nodes:
        return model
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    narrow = _Narrow(copy.graph)
    nodes = [made for node in copy.graph.node for made in narrow.rewritten(node)]
    infos = [item for item in copy.graph.value_info if item.name not in narrow.types]
    del copy.graph.node[:], copy.graph.value_info[:]
    copy.graph.node.extend(nodes)
    copy.graph.value_info.extend(infos)
    copy.graph.initializer.extend(narrow.bytes.values())
    return copy


class _Narrow:
    """The narrow integers that a graph computes."""

    def __init__(self, graph: onnx.GraphProto) -> None:
        self._constants = {tensor.name: tensor for tensor in graph.initializer}
        for node in graph.node:
            if (
                node.op_type == "Constant"
                and len(node.attribute) == 1
                and node.attribute[0].HasField("t")
            ):
                self._constants[node.output[0]] = node.attribute[0].t
        outputs = {item.name for item in graph.output}
        self.nodes = [
            node
            for node in graph.node
            if node.op_type == QUANTIZE_LINEAR
            and node.domain in DEFAULT_DOMAINS
            and len(node.input) > 1
            and len(node.output) == 1
            and self._type(node) in NARROW
            and not outputs & set(node.output)
        ]
        self.types = {node.output[0]: self._type(node) for node in self.nodes}
        """By integers."""
        self.bytes: dict[str, TensorProto] = {}
        """Zero points as bytes."""

    def _type(self, node: onnx.NodeProto) -> int:
        """Return the type of the integers; 0 where it is not known."""
        if len(node.input) > 2 and node.input[2]:
            zero = self._constants.get(node.input[2])
            return 0 if zero is None else int(zero.data_type)
        given = next((int(a.i) for a in node.attribute if a.name == "output_dtype"), 0)
        return given if set(node.input[1:2]) & self._constants.keys() else 0

    def rewritten(self, node: onnx.NodeProto) -> list[onnx.NodeProto]:
        """Return what stands for a node, itself as a rule."""
        if node.output and node.output[0] in self.types and node.op_type == QUANTIZE_LINEAR:
            kind, low, high = NARROW[self.types[node.output[0]]]
            made = self._with_byte(node, kind)
            wide = f"{node.output[0]}_byte"
            stored, made.output[0] = made.output[0], wide
            ends = [self._end(kind, low), self._end(kind, high)]
            label = f"{node.name}_clip" if node.name else ""
            clip = helper.make_node("Clip", [wide, *ends], [stored], label)
            return [made, with_origin(clip, node)]
        if (
            node.op_type == DEQUANTIZE_LINEAR
            and len(node.input) > 1
            and node.input[0] in self.types
        ):
            return [self._with_byte(node, NARROW[self.types[node.input[0]]][0])]
        return [node]

    def _with_byte(self, node: onnx.NodeProto, kind: int) -> onnx.NodeProto:
        made = onnx.NodeProto()
        made.CopyFrom(node)
        kept = [item for item in made.attribute if item.name != "output_dtype"]
        del made.attribute[:]
        made.attribute.extend(kept)
        given = list(node.input) + [""] * (3 - len(node.input))
        given[2] = self._zero(given[1], given[2], kind)
        del made.input[:]
        made.input.extend(given)
        return made

    def _zero(self, scale: str, zero: str, kind: int) -> str:
        """Return the name of a zero point as a byte, of the scale's shape where there is none."""
        source = self._constants.get(zero or scale)
        if source is None:
            return zero
        name = f"{zero or scale}_byte_zero"
        if name not in self.bytes:
            dtype = helper.tensor_dtype_to_np_dtype(kind)
            shape = tuple(source.dims)
            values = constants_of_tensors([source]).get(zero) if zero else np.zeros(shape, dtype)
            if values is None:  # damaged, which who reads it says
                return zero
            self.bytes[name] = numpy_helper.from_array(values.astype(dtype).reshape(shape), name)
        return name

    def _end(self, kind: int, value: int) -> str:
        name = f"narrow_end_{kind}_{value}".replace("-", "minus_")
        array = np.array(value, helper.tensor_dtype_to_np_dtype(kind))
        self.bytes[name] = numpy_helper.from_array(array, name)
        return name
