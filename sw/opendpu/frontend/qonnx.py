# SPDX-License-Identifier: Apache-2.0
"""Quantizers of QONNX, which Brevitas and others of the FPGA world write, in ONNX's operators.

``Quant`` rounds to integers of so many bits and back. Up to 8 bits it is a QuantizeLinear and a
DequantizeLinear with Clip between them; other widths and roundings, and ``BipolarQuant``, are
arithmetic. What they compute is defined with the package ``qonnx``.
"""

import math
from collections.abc import Mapping

import numpy as np
import onnx

from opendpu.frontend.model_file import constants_of_nodes, constants_of_tensors
from opendpu.frontend.node_writer import NodeWriter, Rule, rewritten
from opendpu.frontend.opsets import means_the_same, own_opset, with_opset
from opendpu.ir import Array
from opendpu.ops.quantizing import LARGEST

DOMAINS = ("qonnx.custom_op.general", "onnx.brevitas", "finn.custom_op.general")
QUANT, BIPOLAR = ("Quant", "IntQuant"), "BipolarQuant"
EVEN = ("ROUND", "HALF_EVEN")
"""Roundings of halves to even, ONNX's own."""
MOST_BITS = 8
MOST_WIDTH = 64
"""Bits of an integer."""
MOST_SCALES = 1 << 16
"""Channels that may have scales of their own."""
CLIPS_BYTES = 13
"""The operator set since which Clip takes integers, and QuantizeLinear a scale a channel."""


def without_qonnx(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model with ONNX's operators in place of QONNX's; itself if it has none."""
    if not any(node.domain in DOMAINS for node in model.graph.node):
        return model
    model = _with_bytes(model)
    constants = _numbers(model.graph)
    has_bytes = own_opset(model) >= CLIPS_BYTES

    def rule_of(node: onnx.NodeProto) -> Rule | None:
        if node.domain not in DOMAINS:
            return None
        if node.op_type in QUANT:
            return lambda writer: _quant(writer, constants, has_bytes=has_bytes)
        return _bipolar if node.op_type == BIPOLAR else None

    return rewritten(model, rule_of)


def _with_bytes(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model of a set whose Clip takes bytes, if its nodes mean the same there."""
    opset = own_opset(model)
    own = [node for node in model.graph.node if node.domain not in DOMAINS]
    if opset >= CLIPS_BYTES or not means_the_same(own, opset, CLIPS_BYTES):
        return model
    return with_opset(model, CLIPS_BYTES)


def _numbers(graph: onnx.GraphProto) -> dict[str, Array]:
    """Return constants that may be scales, zero points and widths."""
    small = [tensor for tensor in graph.initializer if math.prod(tensor.dims) <= MOST_SCALES]
    return {**constants_of_tensors(small), **constants_of_nodes(graph.node)}


def _quant(
    writer: NodeWriter, constants: Mapping[str, Array], *, has_bytes: bool
) -> list[onnx.NodeProto] | None:
    """Write ``Quant(x, scale, zero point, bits)``; nothing where the bits are computed."""
    scale, zero, bits = (constants.get(writer.given(index)) for index in (1, 2, 3))
    if bits is None or bits.size != 1 or not 1 <= bits.ravel()[0] <= MOST_WIDTH:
        return None
    signed, narrow = bool(writer.attrs.get("signed", 1)), bool(writer.attrs.get("narrow", 0))
    low, high = _limits(float(bits.ravel()[0]), signed=signed, narrow=narrow)
    mode = str(writer.attrs.get("rounding_mode", b"ROUND"), "utf-8", "replace").upper()
    if has_bytes and mode in EVEN and high - low < 1 << MOST_BITS:
        made = _pair(writer, scale, zero, low, high)
        if made is not None:
            return made
    x = writer.op("Div", writer.given(0), writer.given(1))
    x = writer.op("Add", x, writer.given(2))
    x = writer.op("Clip", x, writer.constant(low), writer.constant(high))
    rounded = _rounded(writer, x, mode)
    if rounded is None:
        return None
    writer.op("Mul", writer.op("Sub", rounded, writer.given(2)), writer.given(1))
    return writer.end()


def _limits(bits: float, *, signed: bool, narrow: bool) -> tuple[int, int]:
    """Return the least and the largest integer."""
    if signed:
        return -int(2 ** (bits - 1)) + narrow, int(2 ** (bits - 1)) - 1
    return 0, int(2**bits) - 1 - narrow


def _pair(
    writer: NodeWriter, scale: Array | None, zero: Array | None, low: int, high: int
) -> list[onnx.NodeProto] | None:
    """Write a rounding to bytes; nothing where scale or zero point are not what that has.

    The bytes have a sign, as the DPU's, wherever the integers fit into such.
    """
    if scale is None or zero is None or zero.size != 1 or not np.all(scale > 0):
        return None
    dtype = np.dtype(np.int8 if high <= LARGEST else np.uint8)
    limits, offset = np.iinfo(dtype), float(zero.ravel()[0])
    axes = [axis for axis, size in enumerate(scale.shape) if size > 1]
    if len(axes) > 1 or offset != round(offset) or not limits.min <= offset <= limits.max:
        return None
    count = scale.size if axes else ()
    grid = [
        writer.constant(np.asarray(scale, np.float32).reshape(count)),
        writer.constant(np.full(count, int(offset), dtype)),
    ]
    attrs = {"axis": axes[0]} if axes else {}
    x = writer.op("QuantizeLinear", writer.given(0), *grid, **attrs)
    if (low, high) != (limits.min, limits.max):
        bounds = (writer.constant(np.array(bound, dtype)) for bound in (low, high))
        x = writer.op("Clip", x, *bounds)
    writer.op("DequantizeLinear", x, *grid, **attrs)
    return writer.end()


def _rounded(writer: NodeWriter, x: str, mode: str) -> str | None:
    """Write a rounding; nothing for one that is not known."""
    if mode in EVEN:
        return writer.op("Round", x)
    if mode in ("CEIL", "FLOOR"):
        return writer.op(mode.capitalize(), x)
    sizes = {
        "UP": ("Ceil", 0.0), "DOWN": ("Floor", 0.0), "ROUND_TO_ZERO": ("Floor", 0.0),
        "HALF_UP": ("Floor", 0.5), "HALF_DOWN": ("Ceil", -0.5),
    }  # fmt: skip
    if mode not in sizes:
        return None
    op_type, moved = sizes[mode]
    size = writer.op(op_type, writer.op("Add", writer.op("Abs", x), writer.constant(moved)))
    return writer.op("Mul", writer.op("Sign", x), size)


def _bipolar(writer: NodeWriter) -> list[onnx.NodeProto]:
    """Write ``BipolarQuant(x, scale)``: the scale, with the sign of x; that of 0 is plus."""
    positive = writer.op("GreaterOrEqual", writer.given(0), writer.constant(0.0))
    writer.op("Where", positive, writer.given(1), writer.op("Neg", writer.given(1)))
    return writer.end()
