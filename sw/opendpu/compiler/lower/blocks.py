# SPDX-License-Identifier: Apache-2.0
"""Blocks of pixels to channels and back: moves of what stays together."""

import dataclasses
import itertools
from typing import Any

from opendpu.compiler.layers import Feature, KernelLayer, MoveLayer
from opendpu.compiler.lower.boxes import Box, add_box, box_of, move
from opendpu.compiler.lower.context import LoweringContext
from opendpu.compiler.lower.registry import lowers
from opendpu.compiler.network import Alias
from opendpu.compiler.network.strides import dense
from opendpu.ir import Node


@lowers("tile-fix")
def tile(context: LoweringContext, node: Node) -> None:
    """Add a move for each row of a block, or let the convolution before write them."""
    size = int(node.attrs["stride"])
    if node.attrs["reverse"] and _split(context, node, size):
        return
    _exchange(context, node, size, [(i, i, size, 0, 1) for i in range(size)])


@lowers("reorg-fix")
def reorg(context: LoweringContext, node: Node) -> None:
    """Add a move for each row of a block, and each row of ``scale`` blocks."""
    size = int(node.attrs["scale"])
    lines = [
        (i, i * size + p, size * size, p, size)
        for i, p in itertools.product(range(size), range(size))
    ]
    _exchange(context, node, size, lines)


def _exchange(
    context: LoweringContext, node: Node, size: int, lines: list[tuple[int, int, int, int, int]]
) -> None:
    """Add moves between a map of pixels and one of blocks of ``size`` x ``size`` of them.

    ``lines`` are rows of blocks: number inside the block, first row and step in the map of pixels,
    first row and step in the map of blocks. A row of a block is ``size`` pixels that follow each
    other on both sides.
    """
    (source,) = node.inputs["input"]
    back = bool(node.attrs["reverse"])
    if context.strides(source) != dense(context.features[source]):
        source = context.copy(source, f"{node.name}/copy")
    pixels, blocks = (node.name, source) if back else (source, node.name)
    channels = context.features[pixels].channels * size
    for number, (i, first, step, block, down) in enumerate(lines):
        name = f"{node.name}/{number}"
        fine = _rows(context, f"{name}/pixels", pixels, size, range(first, 1 << 30, step))
        whole = box_of(context.features[blocks])
        box = Box(
            rows=range(block, whole.rows.stop, down), columns=whole.columns,
            channels=range(i * channels, (i + 1) * channels),
        )  # fmt: skip
        if back:
            part = add_box(context, f"{name}/blocks", blocks, box)
            context.add(MoveLayer(name=name, source=part, output=fine))
        else:
            move(context, name, fine, blocks, box)


def _split(context: LoweringContext, node: Node, size: int) -> bool:
    """Let the convolution before make one row of every block at a time, if that is no more work.

    Returns false where something else needs its result, or blocks of output channels would not be
    full.
    """
    (source,) = node.inputs["input"]
    makers = [n for n, layer in enumerate(context.layers) if layer.output == source]
    readers = [n for n in context.nodes if source in n.sources()]
    if len(makers) != 1 or len(readers) != 1 or source in {*context.outputs, *context.aliases}:
        return False
    layer, lanes = context.layers[makers[0]], context.target.output_channel_parallel
    channels = context.features[node.name].channels * size
    if not isinstance(layer, KernelLayer) or -(-channels // lanes) * size > -(
        -channels * size // lanes
    ):
        return False
    parts = []
    for i in range(size):
        name, taken = f"{layer.name}/{i}", slice(i * channels, (i + 1) * channels)
        fine = _rows(context, f"{name}/pixels", node.name, size, range(i, 1 << 30, size))
        own: dict[str, Any] = {key: values[taken] for key, values in layer.per_channel.items()}
        parts.append(
            dataclasses.replace(layer, name=name, output=fine, weights=layer.weights[taken], **own)
        )
    context.layers[makers[0] : makers[0] + 1] = parts
    return True


def _rows(context: LoweringContext, name: str, holder: str, size: int, rows: range) -> str:
    """Add every ``rows``-th row of a feature map, ``size`` pixels as one."""
    feature = context.features[holder]
    row = feature.width * feature.channels
    taken = range(rows.start, feature.height, rows.step)
    context.features[name] = Feature(
        name=name, height=len(taken), width=feature.width // size,
        channels=feature.channels * size,
    )  # fmt: skip
    alias = Alias(
        holder=holder, offset=rows.start * row, pixel_bytes=feature.channels * size,
        row_bytes=rows.step * row,
    )  # fmt: skip
    assert context.alias(name, alias)
    return name
