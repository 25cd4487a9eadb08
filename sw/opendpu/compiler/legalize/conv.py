# SPDX-License-Identifier: Apache-2.0
"""Convolutions."""

from typing import Any

from opendpu.compiler.legalize.registry import Call, legalizes
from opendpu.compiler.legalize.window import unpadded
from opendpu.compiler.limits import MAX_CONV_KERNEL, MAX_CONV_STRIDE
from opendpu.ops.window import explicit_pad, transposed_pad

NORMAL = ("conv2d", "depthwise-conv2d")
TRANSPOSED = ("transposed-conv2d", "transposed-depthwise-conv2d")


@legalizes(*NORMAL, *TRANSPOSED)
def convolution(call: Call) -> str:
    """Make the same op with weights and bias as int8, or one of patches as pixels."""
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
    if _is_patches(call, attrs):
        return _patches(call, attrs, inputs)
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


def _is_patches(call: Call, attrs: dict[str, Any]) -> bool:
    """Return whether a convolution cuts the rows into patches wider than any stride."""
    width = attrs["kernel"][0]
    weights = call.context.result[call.context.fixed(call.node.inputs["weights"][0])]
    return (
        call.node.kind == "conv2d" and attrs["stride"] == attrs["kernel"]
        and attrs["dilation"] == [1, 1] and not any(attrs["pad"])
        and attrs["group"] == 1 and weights.value is not None
        and max(attrs["stride"]) > MAX_CONV_STRIDE and width <= MAX_CONV_KERNEL
        and [call.shape()[axis] % size for axis, size in ((2, width), (1, attrs["kernel"][1]))]
        == [0, 0]
    )  # fmt: skip


def _patches(call: Call, attrs: dict[str, Any], inputs: dict[str, list[str]]) -> str:
    """Make a convolution of what lies in one row of a patch, as channels of a pixel.

    All rows of a row of patches are one row of these pixels, the taps of a patch as far from each
    other as there are patches in a row: bytes stay where they are. Rows of other images, as a
    network makes them of frames, follow as further rows.
    """
    context = call.context
    (width, height), (batch, rows, columns, channels) = attrs["kernel"], call.shape()
    across, down = columns // width, batch * rows // height
    shape = (1, down, height * across, width * channels)
    weights = context.result[inputs["weights"][0]]
    taps = (weights.shape[0], 1, height, width * channels)
    made = {
        **inputs, "input": [context.view(call.sources[0], shape)],
        "weights": [context.view(weights.name, taps)],
    }  # fmt: skip
    attrs = {
        **attrs, "kernel": [height, 1], "stride": [1, 1], "dilation": [across, 1],
    }  # fmt: skip
    result = (1, down, across, call.node.shape[-1])
    return context.add(call.node, call.fix, "conv2d-fix", made, attrs, shape=result)
