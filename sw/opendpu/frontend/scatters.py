# SPDX-License-Identifier: Apache-2.0
"""``ScatterND`` that puts a map in the place of some channels, rows or columns, as a concatenation.

Exporters write assignments so, ``x[:, :16] = conv(x[:, :16])``, with the index of every element or
channel as a constant (partial convolutions of FasterNet, PLKSR).
"""

from collections.abc import Callable, MutableMapping, Sequence

import numpy as np
import onnx
from onnx import helper

from opendpu.frontend.def_use import attributes_of, with_origin
from opendpu.ir import Array
from opendpu.ops.foreign import DEFAULT_DOMAINS

Shape = tuple[int, ...]


def as_concatenations(
    nodes: Sequence[onnx.NodeProto],
    constants: MutableMapping[str, Array],
    shape_of: Callable[[str], Shape | None],
    add_floats: Callable[[str, Shape], None],
) -> list[onnx.NodeProto]:
    """Return the nodes with slices and a concatenation for each such node.

    ``shape_of`` says the shape of a float32 tensor; ``constants`` gets the places of slices,
    ``add_floats`` what these make.
    """
    made: list[onnx.NodeProto] = []
    for node in nodes:
        box = _box(node, constants, shape_of)
        made += [node] if box is None else _written(node, box, constants, shape_of, add_floats)
    return made


def _box(
    node: onnx.NodeProto,
    constants: MutableMapping[str, Array],
    shape_of: Callable[[str], Shape | None],
) -> tuple[int, int] | None:
    """Return the axis along which some places get other elements, and the first of these."""
    if node.op_type != "ScatterND" or node.domain not in DEFAULT_DOMAINS:
        return None
    if len(node.input) != 3 or len(node.output) != 1:
        return None
    data, new = shape_of(node.input[0]), shape_of(node.input[2])
    indices = constants.get(node.input[1])
    if data is None or new is None or indices is None or len(new) != len(data):
        return None
    if attributes_of(node).get("reduction", b"none") != b"none":
        return None
    count = indices.shape[-1] if indices.ndim else 0
    if indices.ndim != count + 1 or not indices.size or count > len(data):
        return None
    indices = np.where(indices < 0, indices + np.array(data[:count]), indices)
    first = indices[(0,) * count]
    every = np.stack(np.meshgrid(*map(np.arange, indices.shape[:-1]), indexing="ij"), axis=-1)
    axes = [axis for axis, (a, b) in enumerate(zip(data, new, strict=True)) if a != b]
    if not np.array_equal(indices, every + first) or len(axes) != 1:
        return None
    return axes[0], int(first[axes[0]])


def _written(
    node: onnx.NodeProto,
    box: tuple[int, int],
    constants: MutableMapping[str, Array],
    shape_of: Callable[[str], Shape | None],
    add_floats: Callable[[str, Shape], None],
) -> list[onnx.NodeProto]:
    data, new = shape_of(node.input[0]), shape_of(node.input[2])
    assert data is not None and new is not None  # _box
    (axis, first), (y,) = box, node.output
    last, made, parts = first + new[axis], [], []
    for what, start, end in (
        ("before", 0, first),
        ("new", first, last),
        ("behind", last, data[axis]),
    ):
        if what == "new":
            parts.append(node.input[2])
        elif start < end:
            name = f"{y}_{what}"
            given = [node.input[0]]
            for kind, value in (("start", start), ("end", end), ("axis", axis)):
                constants[f"{name}_{kind}"] = np.array([value], np.int64)
                given.append(f"{name}_{kind}")
            made.append(helper.make_node("Slice", given, [name], f"{node.name}_{what}"))
            add_floats(name, (*data[:axis], end - start, *data[axis + 1 :]))
            parts.append(name)
    made.append(helper.make_node("Concat", parts, [y], node.name, axis=axis))
    return [with_origin(one, node) for one in made]
