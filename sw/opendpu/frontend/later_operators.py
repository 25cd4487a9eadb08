# SPDX-License-Identifier: Apache-2.0
"""Activations that tools, PPQ for one, write into files of sets that do not have them yet."""

from collections.abc import Mapping

import onnx

from opendpu.frontend.node_writer import NodeWriter, Rule
from opendpu.frontend.unfused import fast_gelu, gelu


def later_rule(op_type: str, opset: int) -> Rule | None:
    """Return what writes an activation as others, if it came after an operator set."""
    first, rule = LATER.get(op_type, (0, None))
    return rule if opset < first else None


def _hard_swish(writer: NodeWriter) -> list[onnx.NodeProto]:
    gate = writer.op("HardSigmoid", writer.given(0), alpha=1 / 6, beta=0.5)
    writer.op("Mul", writer.given(0), gate)
    return writer.end()


def _swish(writer: NodeWriter) -> list[onnx.NodeProto]:
    x, slope = writer.given(0), writer.attrs.get("alpha", 1.0)
    scaled = x if slope == 1 else writer.op("Mul", x, writer.constant(slope))
    writer.op("Mul", x, writer.op("Sigmoid", scaled))
    return writer.end()


def _mish(writer: NodeWriter) -> list[onnx.NodeProto]:
    writer.op("Mul", writer.given(0), writer.op("Tanh", writer.op("Softplus", writer.given(0))))
    return writer.end()


def _gelu(writer: NodeWriter) -> list[onnx.NodeProto]:
    return (fast_gelu if writer.attrs.get("approximate") == b"tanh" else gelu)(writer)


LATER: Mapping[str, tuple[int, Rule]] = {
    "Gelu": (20, _gelu), "HardSwish": (14, _hard_swish), "Mish": (18, _mish),
    "Swish": (24, _swish),
}  # fmt: skip
"""The first set that has each, and its rule."""
