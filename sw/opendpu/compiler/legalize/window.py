# SPDX-License-Identifier: Apache-2.0
"""Padding of convolutions and pooling."""

from opendpu.compiler.legalize.context import Context

MAX_BEFORE = 15
"""Left and top padding of an instruction."""


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
