# SPDX-License-Identifier: Apache-2.0
"""Pairs that round once more, between operators that move data, what is rounded so already.

Quantizers put a pair behind every operator. Between a reshape and a tile it changes nothing, but
hides what the two are together.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import onnx

from opendpu.frontend.def_use import DefUse, reading
from opendpu.ir import Array
from opendpu.ops.quantizing import DEQUANTIZE_LINEAR, QUANTIZE_LINEAR

MOVING = ("Expand", "Flatten", "Identity", "Reshape", "Squeeze", "Tile", "Transpose", "Unsqueeze")
"""Operators whose results have only elements of their first input."""


def rounded_once(
    nodes: Sequence[onnx.NodeProto], constants: Mapping[str, Array], uses: Mapping[str, int]
) -> list[onnx.NodeProto]:
    """Return nodes, in order, without such pairs. ``uses`` counts readers, and outputs as one."""
    graph = DefUse(nodes, uses)
    renamed: dict[str, str] = {}
    dropped: set[int] = set()
    for node in nodes:
        quantize = graph.made(node.input[0], QUANTIZE_LINEAR) if _is_single(node) else None
        if quantize is None or not _is_between(node, quantize, graph):
            continue
        grid = _grid(node, constants)
        if grid is not None and _same(grid, _grid_before(quantize, graph, constants)):
            renamed[node.output[0]] = renamed.get(quantize.input[0], quantize.input[0])
            dropped |= {id(quantize), id(node)}
    if not renamed:
        return list(nodes)
    return [reading(node, renamed) for node in nodes if id(node) not in dropped]


def _is_single(node: onnx.NodeProto) -> bool:
    """Return whether a node ends a pair with one scale; those along an axis move with it."""
    return node.op_type == DEQUANTIZE_LINEAR and len(node.input) == 3 and len(node.output) == 1


def _is_between(node: onnx.NodeProto, quantize: onnx.NodeProto, graph: DefUse) -> bool:
    """Return whether only operators that move data are around a pair, and read it."""
    before = graph.producers.get(quantize.input[0])
    readers = graph.readers.get(node.output[0], [])
    return (
        before is not None
        and before.op_type in MOVING
        and list(quantize.input[1:]) == list(node.input[1:])
        and graph.uses[quantize.output[0]] == 1
        and graph.uses[node.output[0]] == len(readers)
        and all(_moves(reader, node.output[0], graph) for reader in readers)
    )


def _moves(reader: onnx.NodeProto, name: str, graph: DefUse) -> bool:
    """Return whether a node moves a tensor for others: outputs of the model stay rounded."""
    if len(reader.output) != 1:
        return False
    made = reader.output[0]
    inner = graph.uses[made] == len(graph.readers.get(made, []))
    return (
        reader.op_type in MOVING
        and reader.op_type != "Identity"
        and inner
        and (reader.input[0] == name)
    )


def _grid(node: onnx.NodeProto, constants: Mapping[str, Array]) -> tuple[Array, Array] | None:
    """Return scale and zero point of a node, if they are known and one each."""
    scale, zero = (constants.get(name) for name in node.input[1:3])
    if scale is None or zero is None or scale.size != 1 or zero.size != 1:
        return None
    return scale, zero


def _grid_before(
    quantize: onnx.NodeProto, graph: DefUse, constants: Mapping[str, Array]
) -> tuple[Array, Array] | None:
    """Return what was rounded to, in front of the operators that moved it."""
    name = quantize.input[0]
    while (node := graph.producers.get(name)) is not None and node.op_type in MOVING:
        name = node.input[0]
    if node is None or not _is_single(node) or graph.made(node.input[0], QUANTIZE_LINEAR) is None:
        return None
    return _grid(node, constants)


def _same(one: tuple[Array, Array], other: tuple[Array, Array] | None) -> bool:
    return other is not None and all(
        a.dtype == b.dtype and np.array_equal(a.ravel(), b.ravel())
        for a, b in zip(one, other, strict=True)
    )
