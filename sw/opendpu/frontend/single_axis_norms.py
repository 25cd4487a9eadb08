# SPDX-License-Identifier: Apache-2.0
"""LayerNormalization over several axes of which all but one have one element: over that one axis.

``nn.LayerNorm([C, 1, 1])`` stands so between the layers of a global context (GCNet).
"""

from collections.abc import Callable, MutableMapping, Sequence

import numpy as np
import onnx
from onnx import helper

from opendpu.frontend.def_use import attributes_of, with_origin
from opendpu.ir import Array
from opendpu.ops.foreign import DEFAULT_DOMAINS, LAYER_NORM

Shape = tuple[int, ...]


def over_one_axis(
    nodes: Sequence[onnx.NodeProto],
    constants: MutableMapping[str, Array],
    shape_of: Callable[[str], Shape | None],
    add_floats: Callable[[str, Shape], None],
) -> list[onnx.NodeProto]:
    """Return the nodes with such a normalization between two reshapes.

    ``shape_of`` says the shape of a computed float32 tensor; ``constants`` gets shapes and flat
    parameters, ``add_floats`` is told what is new.
    """
    made = []
    for node in nodes:
        shape = shape_of(node.input[0]) if node.op_type == LAYER_NORM else None
        kept = _flat_shape(node, shape, constants) if shape else None
        made += [node] if kept is None else _flattened(node, shape or (), kept, constants)
        if kept is not None:
            for what in ("flat", "normalized"):
                add_floats(f"{node.output[0]}_{what}", kept)
    return made


def _flat_shape(
    node: onnx.NodeProto, shape: Shape, constants: MutableMapping[str, Array]
) -> Shape | None:
    """Return the shape with one normalized axis; none where it has several, or only one already."""
    axis = next((item.i for item in node.attribute if item.name == "axis"), -1) % len(shape)
    inner = shape[axis:]
    known = all(name in constants for name in node.input[1:] if name)
    single = sum(size > 1 for size in inner) == 1 < len(inner)
    if node.domain not in DEFAULT_DOMAINS or not known or not single or any(node.output[1:]):
        return None
    return (*shape[:axis], max(inner))


def _flattened(
    node: onnx.NodeProto, shape: Shape, kept: Shape, constants: MutableMapping[str, Array]
) -> list[onnx.NodeProto]:
    output = node.output[0]
    flat, normalized = f"{output}_flat", f"{output}_normalized"
    parameters = []
    for number, name in enumerate(node.input[1:]):
        parameters.append(f"{output}_parameter{number}" if name else "")
        if name:
            value = np.broadcast_to(constants[name], shape[len(kept) - 1 :])
            constants[parameters[-1]] = value.reshape(-1)
    for what, sizes in (("to", kept), ("back", shape)):
        constants[f"{output}_{what}"] = np.array(sizes, np.int64)
    attrs = attributes_of(node) | {"axis": -1}
    made = [
        helper.make_node("Reshape", [node.input[0], f"{output}_to"], [flat]),
        helper.make_node(LAYER_NORM, [flat, *parameters], [normalized], node.name, **attrs),
        helper.make_node("Reshape", [normalized, f"{output}_back"], [output]),
    ]
    return [with_origin(one, node) for one in made]
