# SPDX-License-Identifier: Apache-2.0
"""Padding: the input is made inside a larger feature map, and its border is filled or copied."""

import dataclasses

from opendpu.compiler.lower.boxes import Box, add_box, box_of, fill, move, place_in
from opendpu.compiler.lower.context import LoweringContext
from opendpu.compiler.lower.registry import lowers
from opendpu.ir import Node


@lowers("pad-fix")
def pad(context: LoweringContext, node: Node) -> None:
    """Add moves for the border of a padded feature map."""
    amounts = node.attrs["paddings"]
    (source,) = node.inputs["input"]
    feature = context.features[source]
    inside = Box(
        rows=range(amounts[2], amounts[2] + feature.height),
        columns=range(amounts[4], amounts[4] + feature.width),
        channels=range(amounts[6], amounts[6] + feature.channels),
    )
    place_in(context, source, f"{node.name}/inside", node.name, inside)
    if node.attrs["mode"] == "CONSTANT":
        value = int.from_bytes(node.attrs["constant_values"], signed=True)
        frame(context, node.name, inside, value)
    else:
        mirror(context, node.name, inside, edge=int(node.attrs["mode"] == "REFLECT"))


def frame(context: LoweringContext, name: str, inside: Box, value: int) -> None:
    """Fill all of ``name`` that is not ``inside``."""
    whole = box_of(context.features[name])
    high, wide = inside.rows, inside.columns
    boxes = {
        "top": dataclasses.replace(whole, rows=range(high.start)),
        "bottom": dataclasses.replace(whole, rows=range(high.stop, whole.rows.stop)),
        "left": dataclasses.replace(whole, rows=high, columns=range(wide.start)),
        "right": dataclasses.replace(
            whole, rows=high, columns=range(wide.stop, whole.columns.stop)
        ),
        "front": dataclasses.replace(inside, channels=range(inside.channels.start)),
        "back": dataclasses.replace(
            inside, channels=range(inside.channels.stop, whole.channels.stop)
        ),
    }
    for side, box in boxes.items():
        fill(context, f"{name}/{side}", name, box, value)


def mirror(context: LoweringContext, name: str, inside: Box, *, edge: int) -> None:
    """Copy rows and columns of ``inside`` to the border; ``edge`` ones are left out."""
    whole = box_of(context.features[name])
    for to, start in _mirrored(inside.columns, whole.columns, edge):
        box = dataclasses.replace(inside, columns=range(start, start + 1))
        source = add_box(context, f"{name}/column{to}", name, box)
        box = dataclasses.replace(inside, columns=range(to, to + 1))
        move(context, f"{name}/column{to}/copy", source, name, box)
    for to, start in _mirrored(inside.rows, whole.rows, edge):
        box = dataclasses.replace(whole, rows=range(start, start + 1))
        source = add_box(context, f"{name}/row{to}", name, box)
        box = dataclasses.replace(whole, rows=range(to, to + 1))
        move(context, f"{name}/row{to}/copy", source, name, box)


def _mirrored(inside: range, whole: range, edge: int) -> list[tuple[int, int]]:
    """Return (position in the border, position it is a copy of)."""
    before = [(n, 2 * inside.start - 1 + edge - n) for n in range(inside.start)]
    after = [(n, 2 * inside.stop - 1 - edge - n) for n in range(inside.stop, whole.stop)]
    return before + after
