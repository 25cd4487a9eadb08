# SPDX-License-Identifier: Apache-2.0
"""Functions by table: in the write-back of the layers that make the argument, or in a layer of
their own."""

import dataclasses

import numpy as np

from opendpu.compiler.layers import ComputeLayer, EltwiseLayer, Int8Array
from opendpu.compiler.lower.context import LoweringContext
from opendpu.compiler.lower.registry import lowers
from opendpu.compiler.lower.scaled import table_fields
from opendpu.ir import Node
from opendpu_arch.extensions import Extension


@lowers("table-fix")
def table(context: LoweringContext, node: Node) -> None:
    """Give the layers before it the table, if nobody else reads what they make; or add a layer.

    Without the extension ``table``, the layer has the entries as terms.
    """
    entries = np.array(node.attrs["table"], dtype=np.int8)
    (source,) = node.inputs["input"]
    if Extension.TABLE not in context.target.extensions:
        context.add(
            EltwiseLayer(
                name=node.name, sources=(source,), output=node.name, shift_read=(0,),
                shift_write=0, **table_fields(context, node, entries),
            )
        )  # fmt: skip
        return
    views = _views(context, source, node.name)
    makers = _makers(context, views[-1]) if views else []
    if makers and _is_same_shape(context, views[-1], node.name):
        _take_over(context, views, node.name)
        for number in makers:
            context.layers[number] = _through(context.layers[number], views[-1], node.name, entries)
        return
    context.add(
        EltwiseLayer(
            name=node.name, sources=(source,), output=node.name, shift_read=(0,), shift_write=0,
            table=entries,
        )
    )  # fmt: skip


def _views(context: LoweringContext, source: str, reader: str) -> list[str]:
    """Return the node that makes the argument, last, and before it those that only reshape it.

    None where anybody else reads one of them.
    """
    found = []
    name = source
    while True:
        if name not in context.inside or name in context.outputs:
            return []
        if [user.name for user in context.users[name]] != [reader]:
            return []
        found.append(name)
        if context.graph[name].kind != "reshape-fix":
            return found
        reader, (name,) = name, context.graph[name].inputs["input"]


def _makers(context: LoweringContext, name: str) -> list[int]:
    """Return the layers that make a feature map, each a part of it, or none.

    None where some of it is only moved there, or other layers of the op come before the last ones.
    """
    found = [number for number, layer in enumerate(context.layers) if layer.op == name]
    for number in found:
        layer = context.layers[number]
        if not isinstance(layer, ComputeLayer) or layer.table is not None:
            return []
        if context.root(layer.output) != name:
            return []
    return found


def _is_same_shape(context: LoweringContext, name: str, other: str) -> bool:
    one, two = context.features[name], context.features[other]
    return (one.height, one.width, one.channels) == (two.height, two.width, two.channels)


def _take_over(context: LoweringContext, views: list[str], name: str) -> None:
    """Let ``name`` stand for the feature map that has been made, and for its other shapes."""
    for view in views:
        del context.features[view]
        context.aliases.pop(view, None)
    for part in context.aliases.parts(views[-1]):
        context.aliases[part] = dataclasses.replace(context.aliases[part], holder=name)


def _through(layer: object, made: str, name: str, entries: Int8Array) -> ComputeLayer:
    """Return a layer whose results go through a table, as ``name`` if they are the whole of it."""
    assert isinstance(layer, ComputeLayer)
    output = name if layer.output == made else layer.output
    return dataclasses.replace(layer, output=output, table=entries)
