# SPDX-License-Identifier: Apache-2.0
"""Convolutions."""

from typing import Any

from opendpu.compiler.legalize.registry import Call, legalizes
from opendpu.compiler.legalize.window import unpadded
from opendpu.ops.window import explicit_pad, transposed_pad

NORMAL = ("conv2d", "depthwise-conv2d")
TRANSPOSED = ("transposed-conv2d", "transposed-depthwise-conv2d")


@legalizes(*NORMAL, *TRANSPOSED)
def convolution(call: Call) -> str:
    """Make the same op with weights and bias as int8."""
    node = call.node
    attrs: dict[str, Any] = {
        "kernel": list(node.attrs["kernel"]), "stride": list(node.attrs["stride"]),
        "dilation": list(node.attrs.get("dilation") or [1, 1]),
        "pad": _pad(call), "nonlinear": call.nonlinear, "pad_mode": "FLOOR",
    }  # fmt: skip
    if ("depthwise" not in node.kind and int(node.attrs.get("group") or 1) > 1) or (
        node.kind == "conv2d"
    ):
        attrs["group"] = int(node.attrs.get("group") or 1)
    inputs = {arg: [call.context.fixed(n) for n in names] for arg, names in node.inputs.items()}
    if node.kind in NORMAL:
        gaps, kernel = attrs["dilation"], attrs["kernel"]
        extent = [(k - 1) * gap + 1 for k, gap in zip(kernel, gaps, strict=True)]
        source, attrs["pad"] = unpadded(
            call.context, call.sources[0], attrs["pad"], extent, _zero_point(call)
        )
        inputs["input"] = [source]
    return call.context.add(node, call.fix, f"{node.kind}-fix", inputs, attrs)


def _zero_point(call: Call) -> int:
    """Return the integer that is zero in the input."""
    return call.context.result[call.sources[0]].quantization.zero_point[0]


def _pad(call: Call) -> list[int]:
    if call.node.kind in TRANSPOSED:
        return transposed_pad(call.node)
    return explicit_pad(call.node, call.shape())
