# SPDX-License-Identifier: Apache-2.0
"""Masks of what is cut, and graphs without it."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from opendpu.frontend.tensorflow.runtime import tf
from opendpu.ir import Array
from opendpu_arch.errors import UnsupportedError
from tf1_nndct.frozen import Graph, dimensions, value_of
from tf1_nndct.numbering import NORMALIZATIONS
from tf_nndct import importance
from tf_nndct.groups import Removed, Slice, Structure, gone

STATISTICS = (3, 4)
"""Inputs of a normalization that say nothing of what channels are worth."""


def least_important(
    graph: Graph, structure: Structure, widths: Mapping[str, int]
) -> dict[str, list[int]]:
    """Return the units to remove, so that widths are met; the first of equals stay."""
    statistics = {
        constant.name
        for node in graph.nodes.values() if node.op in NORMALIZATIONS
        for constant in (graph.constant(node.input[index]) for index in STATISTICS)
        if constant is not None
    }  # fmt: skip

    def values(item: Slice) -> Array | None:
        return None if item.weight in statistics else value_of(graph.nodes[item.weight])

    return importance.least_important(values, structure, widths)


def masks_of(graph: Graph, structure: Structure, removed: Removed) -> dict[str, Array]:
    """Return ones and zeros by the constants, in the graph's form, that channels are cut of."""
    masks: dict[str, Array] = {}
    for item in structure.slices:
        cut = gone(item.channels, removed)
        if cut:
            shape = dimensions(graph.nodes[item.weight])
            mask = masks.setdefault(item.weight, np.ones(shape, np.float32))
            mask[(slice(None),) * item.axis + (cut,)] = 0
    return masks


def sizes_of(graph: Graph, structure: Structure, removed: Removed) -> dict[str, Any]:
    """Return constants that say sizes as a slim graph has them, ``TensorProto`` by name."""
    found = {}
    for name, channels in structure.sizes.items():
        cut = gone(channels, removed)
        if cut:
            value = value_of(graph.nodes[name])
            value.reshape(-1)[-1] -= len(cut)
            found[name] = tf.make_tensor_proto(value, dtype=value.dtype)
    return found


def masked(definition: Any, masks: Mapping[str, Array]) -> Any:
    """Return a frozen graph with zeros where masks have them."""

    def change(value: Array, mask: Array) -> Array:
        return np.asarray(value * mask, dtype=value.dtype)

    return _changed(definition, masks, change)


def slim(definition: Any, sizes: Mapping[str, Any], masks: Mapping[str, Array]) -> Any:
    """Return a frozen graph without what masks have zeros for, along each axis."""

    def change(value: Array, mask: Array) -> Array:
        for axis in range(value.ndim):
            others = tuple(other for other in range(value.ndim) if other != axis)
            value = value.compress(mask.any(others), axis)
        return value

    made = _changed(definition, masks, change)
    for node in made.node:
        node.attr.pop("_output_shapes", None)
        if node.name in sizes:
            node.attr["value"].tensor.CopyFrom(sizes[node.name])
    return made


def _changed(definition: Any, masks: Mapping[str, Array], change: Any) -> Any:
    made = type(definition)()
    made.CopyFrom(definition)
    nodes = {node.name: node for node in made.node}
    for name, mask in masks.items():
        node = nodes.get(name)
        if node is None or node.op != "Const" or dimensions(node) != np.shape(mask):
            raise UnsupportedError(
                f"masks has {name!r} of shape {np.shape(mask)}, which the graph has not",
                code="OPTIMIZER_INVALID_ARGUMENT_ERROR",
            )
        value = change(value_of(node), np.asarray(mask))
        node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value, dtype=value.dtype))
    return made
