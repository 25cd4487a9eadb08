# SPDX-License-Identifier: Apache-2.0
"""Nodes of ONNX's operator sets 1 to 6 in the terms of set 7, one rule an operator that changed."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx

from opendpu.frontend.later_operators import later_rule
from opendpu.frontend.node_writer import NodeWriter, Rule
from opendpu.ir import Array

IN_PLACE = "consumed_inputs"
"""Which inputs an operator may overwrite: an attribute that means nothing to results."""
DROPPED = {
    "BatchNormalization": ("is_test",), "Dropout": ("is_test",), "Gemm": ("broadcast",),
    "GRU": ("output_sequence",), "LSTM": ("output_sequence",), "RNN": ("output_sequence",),
}  # fmt: skip
"""Attributes without a meaning where nothing is trained."""
MEETING = ("Add", "And", "Div", "Equal", "Greater", "Less", "Mul", "Or", "Pow", "Sub", "Xor")
"""Operators with the attributes ``broadcast`` and ``axis``."""
SELU = {"alpha": 1.6732, "gamma": 1.0507}
"""Constants of Selu in set 1, where a node does not say others; later ones have more digits."""
EPSILON = 1e-5
"""What normalization adds to variances where nothing is said."""
ELEMENTS_UNTIL = 8
"""The last set whose normalizations may have statistics of every element."""
CONCAT_AXIS, POWER = 1, 2
"""What set 1 takes for the axis of Concat, and for ``p`` of LpPool, where nothing is said."""


@dataclasses.dataclass
class OldNode:
    """A node of an older set; ``inputs`` and ``attrs`` become those of set 7.

    ``writer`` takes nodes before it; ``rank_of`` says how many axes an input has, where that is
    known.
    """

    writer: NodeWriter
    inputs: list[str]
    attrs: dict[str, Any]
    constants: Mapping[str, Array]
    rank_of: Callable[[str], int | None]
    opset: int

    def along(self, index: int, axis: int) -> None:
        """Let the axes of an input meet those of the first one from ``axis`` on."""
        wide, own = self.rank_of(self.inputs[0]), self.rank_of(self.inputs[index])
        if wide is None or own is None:
            return
        behind = wide - (axis % wide) - own
        if own and behind > 0:
            axes = list(range(own, own + behind))
            self.inputs[index] = self.writer.op("Unsqueeze", self.inputs[index], axes=axes)

    def numbers(self, index: int) -> list[int]:
        """Return the integers of a constant input."""
        return [int(number) for number in self.constants[self.inputs[index]].ravel()]


def renew(node: OldNode) -> None:
    """Make inputs and attributes of a node what set 7 has in their place."""
    op_type = node.writer.node.op_type
    for name in (IN_PLACE, *DROPPED.get(op_type, ())):
        node.attrs.pop(name, None)
    if op_type in CHANGES:
        CHANGES[op_type](node)


def _meeting(node: OldNode) -> None:
    axis = node.attrs.pop("axis", None)
    if node.attrs.pop("broadcast", 0) and axis is not None:
        node.along(1, axis)


def _slopes(node: OldNode) -> None:
    """A slope for each channel, which is axis 1."""
    if node.rank_of(node.inputs[1]) == 1:
        node.along(1, 1)


def _cast(node: OldNode) -> None:
    if isinstance(node.attrs["to"], bytes):
        node.attrs["to"] = onnx.TensorProto.DataType.Value(node.attrs["to"].decode().upper())


def _reshape(node: OldNode) -> None:
    if "shape" in node.attrs:
        shape = np.array(node.attrs.pop("shape"), np.int64)
        node.inputs = [node.inputs[0], node.writer.constant(shape)]


def _pad(node: OldNode) -> None:
    if "paddings" in node.attrs:
        node.attrs["pads"] = node.attrs.pop("paddings")


def _split(node: OldNode) -> None:
    if len(node.inputs) > 1:
        node.attrs["split"] = node.numbers(1)
        del node.inputs[1:]


def _tile(node: OldNode) -> None:
    """So many copies along one axis."""
    rank = node.rank_of(node.inputs[0])
    if node.opset < 6 and rank is not None and len(node.inputs) > 2:
        (tiles,), (axis,) = node.numbers(1), node.numbers(2)
        repeats = np.ones(rank, np.int64)
        repeats[axis] = tiles
        node.inputs = [node.inputs[0], node.writer.constant(repeats)]


def _upsample(node: OldNode) -> None:
    if "height_scale" in node.attrs:
        rows, columns = node.attrs.pop("height_scale"), node.attrs.pop("width_scale")
        node.attrs["scales"] = [1.0, 1.0, rows, columns]


def _pool_of_power(node: OldNode) -> None:
    if node.opset < 2:
        node.attrs["p"] = int(node.attrs.get("p", POWER))


def _concat(node: OldNode) -> None:
    node.attrs.setdefault("axis", CONCAT_AXIS)


def _selu(node: OldNode) -> None:
    if node.opset < 6:
        node.attrs = SELU | node.attrs


def _normalization(node: OldNode) -> None:
    """The results of training are nobody's."""
    del node.writer.node.output[1:]


CHANGES: Mapping[str, Callable[[OldNode], None]] = {
    **dict.fromkeys(MEETING, _meeting), "BatchNormalization": _normalization, "Cast": _cast,
    "Concat": _concat, "GlobalLpPool": _pool_of_power, "LpPool": _pool_of_power, "Pad": _pad,
    "PRelu": _slopes, "Reshape": _reshape, "Selu": _selu, "Split": _split, "Tile": _tile,
    "Upsample": _upsample,
}  # fmt: skip
"""What changes besides attributes that are dropped."""


def _affine(writer: NodeWriter) -> list[onnx.NodeProto]:
    scaled = writer.op("Mul", writer.given(0), writer.constant(writer.attrs.get("alpha", 1.0)))
    writer.op("Add", scaled, writer.constant(writer.attrs.get("beta", 0.0)))
    return writer.end()


def _image_scaler(writer: NodeWriter) -> list[onnx.NodeProto]:
    """A factor, then a bias for each channel."""
    scaled = writer.op("Mul", writer.given(0), writer.constant(writer.attrs.get("scale", 1.0)))
    bias = np.array(writer.attrs.get("bias", [0.0]), np.float32)
    writer.op("Add", scaled, writer.constant(bias.reshape(-1, 1, 1)))
    return writer.end()


def _scale(writer: NodeWriter) -> list[onnx.NodeProto]:
    writer.op("Mul", writer.given(0), writer.constant(writer.attrs.get("scale", 1.0)))
    return writer.end()


def _scaled(op_type: str) -> Rule:
    """An operator with a factor before it, ``beta``, and one behind it, ``alpha``."""

    def rule(writer: NodeWriter) -> list[onnx.NodeProto]:
        inner = writer.op("Mul", writer.given(0), writer.constant(writer.attrs["beta"]))
        outer = writer.op(op_type, inner)
        writer.op("Mul", outer, writer.constant(writer.attrs["alpha"]))
        return writer.end()

    return rule


def _crop(writer: NodeWriter) -> list[onnx.NodeProto]:
    """Rows and columns that are cut off: left, top, right, bottom; or the size of what is left."""
    left, top, right, bottom = writer.attrs["border"]
    ends = [-bottom or 1 << 31, -right or 1 << 31]
    if "scale" in writer.attrs:
        rows, columns = writer.attrs["scale"]
        ends = [top + rows, left + columns]
    writer.op("Slice", writer.given(0), starts=[top, left], ends=ends, axes=[2, 3])
    return writer.end()


WITHDRAWN: Mapping[str, Rule] = {
    "Affine": _affine, "Crop": _crop, "ImageScaler": _image_scaler,
    "ParametricSoftplus": _scaled("Softplus"), "Scale": _scale, "ScaledTanh": _scaled("Tanh"),
}  # fmt: skip
"""Operators that ONNX had on trial and took back, and converters from Core ML wrote for longer."""


def _of_elements(writer: NodeWriter) -> list[onnx.NodeProto]:
    """Normalization with statistics of every element, without ``spatial``, as sets 1 to 8 had."""
    x, scale, bias, mean, variance = (writer.given(index) for index in range(5))
    epsilon = writer.constant(writer.attrs.get("epsilon", EPSILON))
    deviation = writer.op("Sqrt", writer.op("Add", variance, epsilon))
    factor = writer.op("Div", scale, deviation)
    moved = writer.op("Sub", bias, writer.op("Mul", mean, factor))
    writer.op("Add", writer.op("Mul", x, factor), moved)
    del writer.node.output[1:]
    return writer.end()


def rule_of(node: onnx.NodeProto, opset: int) -> Rule | None:
    """Return what writes a node of ONNX's own domain as others, whatever the set it came with."""
    each = any(item.name == "spatial" and not item.i for item in node.attribute)
    if node.op_type == "BatchNormalization" and each and opset <= ELEMENTS_UNTIL:
        return _of_elements
    return WITHDRAWN.get(node.op_type) or later_rule(node.op_type, opset)
