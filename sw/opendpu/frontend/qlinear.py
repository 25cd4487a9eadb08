# SPDX-License-Identifier: Apache-2.0
"""Operators of ONNX that compute on integers (``QLinear...``), as those of real numbers between
DequantizeLinear and QuantizeLinear.

That is how ONNX and onnxruntime define them. So both forms of a quantized model, QOperator and QDQ,
become the same graph.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from opendpu.ir import Array

MICROSOFT = "com.microsoft"
Operand = tuple[str, str, str]
"""Names of integers, scale and zero point; an empty zero point is zero."""


@dataclasses.dataclass(frozen=True)
class Form:
    """How an operator on integers lists its inputs.

    Parameters
    ----------
    op_type
        Its counterpart on real numbers.
    operands
        Where the quantized inputs begin; scale and zero point are behind each.
    result
        Where the scale of the result is, its zero point behind it.
    bias
        Where the 32-bit bias is, if it can have one.
    """

    op_type: str
    operands: tuple[int, ...]
    result: int
    bias: int | None = None


FORMS = {
    ("", "QLinearConv"): Form("Conv", (0, 3), 6, 8),
    ("", "QLinearMatMul"): Form("MatMul", (0, 3), 6),
    (MICROSOFT, "QLinearConv"): Form("Conv", (0, 3), 6, 8),
    (MICROSOFT, "QLinearAdd"): Form("Add", (0, 3), 6),
    (MICROSOFT, "QLinearMul"): Form("Mul", (0, 3), 6),
    (MICROSOFT, "QLinearAveragePool"): Form("AveragePool", (0,), 3),
    (MICROSOFT, "QLinearGlobalAveragePool"): Form("GlobalAveragePool", (0,), 3),
    (MICROSOFT, "QLinearLeakyRelu"): Form("LeakyRelu", (0,), 3),
    (MICROSOFT, "QLinearSoftmax"): Form("Softmax", (0,), 3),
    (MICROSOFT, "QLinearSigmoid"): Form("Sigmoid", (0,), 3),
    (MICROSOFT, "QGemm"): Form("Gemm", (0, 3), 7, 6),
}
"""By domain and operator; concatenation has as many inputs as it likes."""
CONCAT = (MICROSOFT, "QLinearConcat")
PICKING = (
    "MaxPool", "Resize", "Slice", "Gather", "DepthToSpace", "SpaceToDepth", "Split", "Pad",
    "Expand", "Tile", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Identity",
)  # fmt: skip
"""Operators of real numbers that models have between integers too, at one scale: every result is
one of the first input's elements, or what Pad is told. Resizing is, if it does not interpolate."""
NHWC = {(MICROSOFT, "NhwcMaxPool"): "MaxPool"}
"""Operators that pick integers with channels last, as others have them by an attribute."""
CHANNELS_LAST, OWN = "channels_last", ("channels_last", "opset")
"""Attributes that only operators on integers have; the first one onnxruntime's optimizer sets."""
MAP = 4
"""Axes of a feature map."""


def expanded(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model without operators on integers that are known here; others stay as they are."""
    constants = {item.name: item for item in proto.graph.initializer}
    known = {*FORMS, *NHWC, CONCAT}
    stored = {name for n in proto.graph.node if n.op_type == "QuantizeLinear" for name in n.output}
    if not any(
        _key(node) in known or (node.op_type in PICKING and not stored.isdisjoint(node.input))
        for node in proto.graph.node
    ):
        return proto
    made = onnx.ModelProto()
    made.CopyFrom(proto)
    del made.graph.node[:]
    rewriting = _Rewriting(made.graph, constants)
    for node in proto.graph.node:
        made.graph.node.extend(rewriting.rewritten(node))
    return made


def _key(node: onnx.NodeProto) -> tuple[str, str]:
    return ("" if node.domain == "ai.onnx" else node.domain, node.op_type)


class _Rewriting:
    """Rewrites nodes, in order."""

    def __init__(self, graph: onnx.GraphProto, constants: Mapping[str, onnx.TensorProto]) -> None:
        self.graph, self.constants = graph, constants
        self.grids: dict[str, tuple[str, str]] = {}
        """Scale and zero point of the integers made so far."""

    def rewritten(self, node: onnx.NodeProto) -> list[onnx.NodeProto]:
        """Return what stands for a node."""
        given = list(node.input)
        key = _key(node)
        if key in FORMS:
            form = FORMS[key]
            operands = [self._operand(given, at) for at in form.operands]
            result = self._operand(["", *given[form.result :]], 0)[1:]
            bias = _at(given, form.bias)
            if result[0] and not (bias and not self._is_known(operands)):
                return self._between(node, form.op_type, operands, result, bias)
        elif key == CONCAT:
            operands = [self._operand(given, at) for at in range(2, len(given), 3)]
            return self._between(node, "Concat", operands, (given[0], given[1]), "")
        elif key in NHWC and given[0] in self.grids and len(node.output) == 1:
            grid = self.grids[given[0]]
            return self._between(node, NHWC[key], [(given[0], *grid)], grid, "")
        elif key[0] == "" and key[1] in PICKING and given[0] in self.grids and _picks(node):
            grid = self.grids[given[0]]
            operands, rest = [(given[0], *grid)], given[1:]
            if key[1] != "Pad":
                return self._between(node, key[1], operands, grid, "", rest)
            before, rest = self._padded(node, grid, rest)
            return [*before, *self._between(node, key[1], operands, grid, "", rest)]
        elif key[1] == "QuantizeLinear":
            self.grids[node.output[0]] = (given[1], _at(given, 2))
        return [node]

    def _operand(self, given: Sequence[str], at: int) -> Operand:
        return _at(given, at), _at(given, at + 1), _at(given, at + 2)

    def _is_known(self, operands: Sequence[Operand]) -> bool:
        return all(scale in self.constants for _, scale, _ in operands)

    def _between(
        self, node: onnx.NodeProto, op_type: str, operands: Sequence[Operand],
        result: tuple[str, str], bias: str, rest: Sequence[str] = (),
    ) -> list[onnx.NodeProto]:  # fmt: skip
        """Return the operator on real numbers, and the conversions around it.

        ``rest`` are inputs behind those that are quantized: sizes, indices.
        """
        output = node.output[0]
        made: list[onnx.NodeProto] = []
        real: list[str] = []
        for number, (name, scale, zero) in enumerate(operands):
            real.append(f"{output}/operand{number}")
            axis = self._axis(op_type, number, name, node)
            inputs = [name, scale, *([zero] if zero else [])]
            several = scale in self.constants and np.prod(self.constants[scale].dims) > 1
            attrs: dict[str, Any] = {"axis": axis} if several else {}
            made.append(helper.make_node("DequantizeLinear", inputs, real[-1:], **attrs))
        if bias:
            scales = [numpy_helper.to_array(self.constants[scale]) for _, scale, _ in operands]
            product = (scales[0].ravel()[0] * scales[1]).astype(np.float32)
            real.append(f"{output}/bias")
            inputs = [bias, self._constant(f"{output}/bias_scale", product)]
            made.append(helper.make_node("DequantizeLinear", inputs, real[-1:], axis=0))
        results = [f"{name}/real" for name in node.output]
        inner = helper.make_node(op_type, [*real, *rest], results, name=node.name or output)
        inner.attribute.extend(a for a in node.attribute if a.name not in OWN)
        made += self._channels_first(node, inner)
        scale, zero = result
        for name in node.output:
            inputs = [f"{name}/real", scale, *([zero] if zero else [])]
            made.append(helper.make_node("QuantizeLinear", inputs, [name]))
            self.grids[name] = result
        return made

    def _channels_first(self, node: onnx.NodeProto, inner: onnx.NodeProto) -> list[onnx.NodeProto]:
        """Return an operator on real numbers, between transposes where its channels are last."""
        last = any(a.name == CHANNELS_LAST and a.i for a in node.attribute) or _key(node) in NHWC
        if not last:
            return [inner]
        rank = next((len(a.ints) + 2 for a in inner.attribute if a.name == "kernel_shape"), MAP)
        first = [0, rank - 1, *range(1, rank - 1)]
        behind = [0, *range(2, rank), 1]
        given, made = f"{inner.output[0]}/first", f"{inner.output[0]}/made"
        before = helper.make_node("Transpose", inner.input[:1], [given], perm=first)
        after = helper.make_node("Transpose", [made], inner.output[:1], perm=behind)
        inner.input[0], inner.output[0] = given, made
        return [before, inner, after]

    def _padded(
        self, node: onnx.NodeProto, grid: tuple[str, str], rest: Sequence[str]
    ) -> tuple[list[onnx.NodeProto], list[str]]:
        """Return what makes a real number of what Pad pads with, and its inputs but the first.

        Integers are padded with the integer 0 where nothing is said.
        """
        (scale, zero), value = grid, _at(rest, 1)
        mode = next((a.s for a in node.attribute if a.name == "mode"), b"constant")
        if mode != b"constant" or not zero:
            return [], list(rest)
        if not value and zero in self.constants:
            kind = numpy_helper.to_array(self.constants[zero]).dtype
            value = self._constant(f"{node.output[0]}/value", np.zeros((), kind))
        made = f"{node.output[0]}/filling"
        before = helper.make_node("DequantizeLinear", [value, scale, zero], [made])
        return [before], [rest[0], made, *rest[2:]]

    def _axis(self, op_type: str, number: int, name: str, node: onnx.NodeProto) -> int:
        """Return the axis of output channels in an operand; of features it means nothing."""
        if op_type == "Conv" or number == 0:
            return 0
        transposed = any(a.name == "transB" and a.i for a in node.attribute)
        rank = len(self.constants[name].dims) if name in self.constants else 2
        return 0 if transposed else rank - 1

    def _constant(self, name: str, value: Array) -> str:
        self.graph.initializer.append(numpy_helper.from_array(value, name))
        return name


def _picks(node: onnx.NodeProto) -> bool:
    """Tell whether a node makes one result of elements of its input as they are."""
    mode = next((a.s for a in node.attribute if a.name == "mode"), b"nearest")
    several = len(node.output) > 1 and node.op_type != "Split"
    return not several and (node.op_type != "Resize" or mode == b"nearest")


def _at(names: Sequence[str], index: int | None) -> str:
    return names[index] if index is not None and index < len(names) else ""
