# SPDX-License-Identifier: Apache-2.0
"""Parts of feature maps: rows, columns and channels from somewhere, each at a fixed stride."""

import dataclasses

from opendpu.compiler.layers import Feature, MoveLayer
from opendpu.compiler.lower.context import LoweringContext
from opendpu.compiler.network import Alias


@dataclasses.dataclass(frozen=True, kw_only=True)
class Box:
    """``rows``, ``columns`` (positive strides) and ``channels`` (stride 1) of a feature map."""

    rows: range
    columns: range
    channels: range


def box_of(feature: Feature) -> Box:
    """Return the box that is the whole feature map."""
    return Box(
        rows=range(feature.height), columns=range(feature.width), channels=range(feature.channels)
    )


def alias_of(holder: Feature, box: Box) -> Alias:
    """Return the bytes of a box of ``holder``."""
    pixel, row = holder.channels, holder.width * holder.channels
    return Alias(
        holder=holder.name,
        offset=box.rows.start * row + box.columns.start * pixel + box.channels.start,
        pixel_bytes=box.columns.step * pixel, row_bytes=box.rows.step * row,
    )  # fmt: skip


def add_box(context: LoweringContext, name: str, holder: str, box: Box) -> str:
    """Add a feature map that is a box of ``holder``, whose pixels are at fixed strides."""
    context.features[name] = Feature(
        name=name, height=len(box.rows), width=len(box.columns), channels=len(box.channels)
    )
    if not context.alias(name, alias_of(context.features[holder], box)):
        raise AssertionError(f"{name} has no fixed strides in {holder}")
    return name


def move(context: LoweringContext, name: str, source: str, holder: str, box: Box) -> None:
    """Add a copy of ``source`` to a box of ``holder``."""
    output = add_box(context, f"{name}/to", holder, box)
    context.add(MoveLayer(name=name, source=source, output=output))


def fill(context: LoweringContext, name: str, holder: str, box: Box, value: int) -> None:
    """Add a constant in a box of ``holder``, if that has pixels."""
    if box.rows and box.columns and box.channels:
        output = add_box(context, name, holder, box)
        context.add(MoveLayer(name=name, source=None, output=output, value=value))


def place_in(context: LoweringContext, source: str, name: str, holder: str, box: Box) -> None:
    """Let ``source`` be made in a box of ``holder``, or copy it there."""
    if not is_free(context, source) or not context.alias(
        source, alias_of(context.features[holder], box)
    ):
        move(context, name, source, holder, box)


def is_free(context: LoweringContext, name: str) -> bool:
    """Tell whether a feature map can be made at another place, with all that is bytes of it."""
    fixed = {*context.inputs, *map(context.root, context.outputs & context.features.keys())}
    return name in context.inside and name not in context.aliases and name not in fixed
