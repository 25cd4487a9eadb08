# SPDX-License-Identifier: Apache-2.0
"""Reshapes, slices, exchanged axes and concatenations: aliases, behind copies where bytes cannot
stay in place."""

import dataclasses

from opendpu.compiler.layers import Feature
from opendpu.compiler.lower.boxes import Box, alias_of, box_of, is_free, place_in
from opendpu.compiler.lower.context import LoweringContext
from opendpu.compiler.lower.registry import lowers
from opendpu.compiler.lower.walk import Walk, walk
from opendpu.compiler.network import Alias
from opendpu.compiler.network.strides import dense
from opendpu.ir import Node

AXES = 2
"""Rows and columns: an alias has a step for each."""


@lowers("reshape-fix")
def reshape(context: LoweringContext, node: Node) -> None:
    """Make the result the bytes of its input, if those have no gaps."""
    strides = dense(context.features[node.name])
    _view(context, node, Alias(
        holder=node.inputs["input"][0], offset=0, pixel_bytes=strides.pixel_bytes,
        row_bytes=strides.row_bytes,
    ))  # fmt: skip


@lowers("strided_slice-fix")
def strided_slice(context: LoweringContext, node: Node) -> None:
    """Make the result some pixels and channels of its input."""
    ranges = zip(*(node.attrs[key] for key in ("begin", "end", "strides")), strict=True)
    _, rows, columns, channels = (range(*limits) for limits in ranges)
    source = context.features[node.inputs["input"][0]]
    _view(context, node, alias_of(source, Box(rows=rows, columns=columns, channels=channels)))


@lowers("transpose")
def transpose(context: LoweringContext, node: Node) -> None:
    """Make the result the pixels of its input, walked by columns; copy what takes more loops."""
    found = Walk.of(
        context.graph[node.inputs["input"][0]].shape, [int(axis) for axis in node.attrs["order"]]
    )  # fmt: skip
    if len(found.axes) > AXES:
        walk(context, node, found)
        return
    strides = dense(context.features[node.inputs["input"][0]])
    _view(context, node, Alias(
        holder=node.inputs["input"][0], offset=0, pixel_bytes=strides.row_bytes,
        row_bytes=strides.pixel_bytes,
    ))  # fmt: skip


def _view(context: LoweringContext, node: Node, alias: Alias) -> None:
    """Make ``node`` bytes of its input, or of a copy of that; an output gets bytes of its own."""
    name = node.name
    if context.is_served(alias.holder, name):
        feature = context.features[name]
        part = f"{name}/part"
        context.features[part] = dataclasses.replace(feature, name=part)
        if context.alias(part, alias):
            context.copy(part, name)
            return
        del context.features[part]
    if context.is_served(alias.holder, name) or not context.alias(name, alias):
        copy = context.copy(alias.holder, f"{name}/copy")
        assert context.alias(name, dataclasses.replace(alias, holder=copy))


@lowers("concat-fix")
def concat(context: LoweringContext, node: Node) -> None:
    """Make the inputs bytes of the result; copy those that have another place already.

    Inputs that were joined before, for another result, come as that: so nothing is copied where
    every layer reads the results of all before it. Slices that follow each other come as what they
    were cut from.
    """
    holder = context.features[node.name]
    axis = int(node.attrs["axis"]) - len(node.shape)
    at = 0
    for number, source in enumerate(_whole(context, _joined(context, node), axis)):
        box, size = _beside(holder, context.features[source], axis, at)
        place_in(context, source, f"{node.name}/{number}", node.name, box)
        at += size


def _joined(context: LoweringContext, node: Node) -> list[str]:
    """Return the inputs of a concatenation, with earlier ones for as many of them as possible."""
    parts, sources = [], list(node.inputs["input"])
    earlier = [
        other for other in context.nodes[: context.nodes.index(node)]
        if other.kind == node.kind and is_free(context, other.name)
        and int(other.attrs["axis"]) - len(other.shape) == int(node.attrs["axis"]) - len(node.shape)
    ]  # fmt: skip
    earlier.sort(key=lambda other: -len(other.inputs["input"]))
    while sources:
        for other in earlier:
            joined = other.inputs["input"]
            if other.name not in parts and sources[: len(joined)] == joined:
                parts.append(other.name)
                del sources[: len(joined)]
                break
        else:
            parts.append(sources.pop(0))
    return parts


def _whole(context: LoweringContext, sources: list[str], axis: int) -> list[str]:
    """Return the parts of a concatenation, with all slices of a feature map in a row as that."""
    parts: list[str] = []
    while sources:
        origin, count = sources[0], 1
        alias = context.aliases.get(origin)
        if alias is not None and is_free(context, alias.holder):
            holder, at, taken = context.features[alias.holder], 0, 0
            for name in sources:
                box, size = _beside(holder, context.features[name], axis, at)
                fills = _across(context.features[name], axis) == _across(holder, axis)
                if not fills or context.aliases.get(name) != alias_of(holder, box):
                    break
                at, taken = at + size, taken + 1
                if at == (holder.height, holder.width, holder.channels)[axis]:
                    origin, count = alias.holder, taken
                    break
        parts.append(origin)
        del sources[:count]
    return parts


def _across(feature: Feature, axis: int) -> tuple[int, ...]:
    """Return the sizes along the other axes."""
    sizes = [feature.height, feature.width, feature.channels]
    del sizes[axis]
    return tuple(sizes)


def _beside(holder: Feature, part: Feature, axis: int, at: int) -> tuple[Box, int]:
    """Return the box of ``holder`` that ``part`` fills from ``at`` on, and its size there."""
    box = box_of(holder)
    match axis:
        case -3:
            return dataclasses.replace(box, rows=range(at, at + part.height)), part.height
        case -2:
            return dataclasses.replace(box, columns=range(at, at + part.width)), part.width
    return dataclasses.replace(box, channels=range(at, at + part.channels)), part.channels
