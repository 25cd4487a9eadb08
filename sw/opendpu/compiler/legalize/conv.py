# SPDX-License-Identifier: Apache-2.0
"""Convolutions."""

from typing import Any

from opendpu.compiler.legalize.registry import Call, legalizes
from opendpu.compiler.legalize.window import explicit_pad


@legalizes("conv2d", "depthwise-conv2d")
def convolution(call: Call) -> str:
    """Make the same op with weights and bias as int8."""
    node = call.node
    attrs: dict[str, Any] = {
        "kernel": list(node.attrs["kernel"]), "stride": list(node.attrs["stride"]),
        "dilation": list(node.attrs.get("dilation") or [1, 1]),
        "pad": explicit_pad(node, call.shape()), "nonlinear": call.nonlinear, "pad_mode": "FLOOR",
    }  # fmt: skip
    if node.kind == "conv2d":
        attrs["group"] = int(node.attrs.get("group") or 1)
    inputs = {arg: [call.context.fixed(n) for n in names] for arg, names in node.inputs.items()}
    return call.context.add(node, call.fix, f"{node.kind}-fix", inputs, attrs)
