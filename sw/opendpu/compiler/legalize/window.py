# SPDX-License-Identifier: Apache-2.0
"""Padding of convolutions and pooling."""

from opendpu.compiler.legalize.context import Context
from opendpu.ir import Node

MAX_BEFORE = 15
"""Left and top padding of an instruction."""


def explicit_pad(node: Node, shape: tuple[int, ...]) -> list[int]:
    """Return left, right, top and bottom padding of a window op with any ``pad_mode``."""
    pad = [int(p) for p in node.attrs.get("pad") or (0, 0, 0, 0)]
    mode = str(node.attrs.get("pad_mode", "FLOOR")).upper()
    if mode not in ("SAME", "CEIL"):
        return pad
    for axis, size in ((0, shape[2]), (1, shape[1])):
        gap = int((node.attrs.get("dilation") or [1, 1])[axis])
        extent = (int(node.attrs["kernel"][axis]) - 1) * gap + 1
        stride = int(node.attrs["stride"][axis])
        total = size + pad[2 * axis] + pad[2 * axis + 1]
        if mode == "SAME":
            missing = max(0, (-(-total // stride) - 1) * stride + extent - total)
            before = missing // 2
        else:
            missing = max(0, -(-(total - extent) // stride) * stride + extent - total)
            before = 0
        pad[2 * axis] += before
        pad[2 * axis + 1] += missing - before
    return pad


def transposed_pad(node: Node) -> list[int]:
    """Return left, right, top and bottom padding of a transposed convolution: results cut off."""
    mode = str(node.attrs.get("pad_mode", "FLOOR")).upper()
    if mode == "VALID":
        return [0, 0, 0, 0]
    if mode != "SAME":
        return [int(p) for p in node.attrs.get("pad") or (0, 0, 0, 0)]
    pad = []
    for kernel, stride in zip(node.attrs["kernel"], node.attrs["stride"], strict=True):
        total = int(kernel) - int(stride)
        pad += [total // 2, total - total // 2]
    return pad


def unpadded(
    context: Context, name: str, pad: list[int], extent: list[int], fill: int
) -> tuple[str, list[int]]:
    """Return the input of a ``pad-fix`` and the padding that does the same, if there is such.

    ``extent`` is width and height of the window, ``fill`` the byte that it pads with.
    """
    node = context.result[name]
    if node.kind != "pad-fix" or node.attrs["mode"] != "CONSTANT":
        return name, pad
    amounts = node.attrs["paddings"]
    if any(amounts[6:]) or int.from_bytes(node.attrs["constant_values"], signed=True) != fill:
        return name, pad
    wider = [a + b for a, b in zip(pad, [*amounts[4:6], *amounts[2:4]], strict=True)]
    limits = [extent[0], extent[0], extent[1], extent[1]]
    fits = all(p < limit for p, limit in zip(wider, limits, strict=True))
    if not fits or max(wider[0], wider[2]) > MAX_BEFORE:
        return name, pad
    return node.inputs["input"][0], wider
