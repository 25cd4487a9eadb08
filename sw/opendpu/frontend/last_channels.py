# SPDX-License-Identifier: Apache-2.0
"""Resizes of feature maps whose channels are last, as JAX's libraries have them.

ONNX's operator takes any order of axes. Between two transpositions, which nothing has to compute
where feature maps are stored with channels last, it is one of rows and columns.
"""

from collections.abc import Callable, MutableMapping, Sequence

import numpy as np
import onnx
from onnx import helper

from opendpu.frontend.def_use import with_origin
from opendpu.ir import Array
from opendpu.ops.foreign import DEFAULT_DOMAINS
from opendpu.ops.onnx_builder import TO_NCHW, TO_NHWC

ROI, SCALES, SIZES = 1, 2, 3
"""Inputs of ``Resize``."""


def resized_channels_first(
    nodes: Sequence[onnx.NodeProto],
    constants: MutableMapping[str, Array],
    shape_of: Callable[[str], tuple[int, ...] | None],
    add_floats: Callable[[str, tuple[int, ...]], None],
) -> list[onnx.NodeProto]:
    """Return the nodes with resizes of ``NHWC`` as those of ``NCHW``.

    ``shape_of`` says the shape of a float32 tensor; ``constants`` gets factors in the other order,
    ``add_floats`` what else is new.
    """
    made: list[onnx.NodeProto] = []
    for node in nodes:
        index = _factors(node, constants, shape_of)
        if index is None:
            made.append(node)
            continue
        x, (y,) = node.input[0], node.output
        first, last = f"{y}_channels_first", f"{y}_resized"
        inner = onnx.NodeProto()
        inner.CopyFrom(node)
        inner.input[0], inner.output[0] = first, last
        inner.input[index] = f"{y}_factors"
        constants[inner.input[index]] = constants[node.input[index]].ravel()[list(TO_NCHW)]
        for name, source in ((first, x), (last, y)):
            shape = shape_of(source) or ()
            add_floats(name, tuple(shape[axis] for axis in TO_NCHW))
        made += [
            with_origin(helper.make_node("Transpose", [x], [first], first, perm=TO_NCHW), node),
            inner,
            with_origin(
                helper.make_node("Transpose", [last], [y], f"{y}_back", perm=TO_NHWC), node
            ),
        ]
    return made


def _factors(
    node: onnx.NodeProto,
    constants: MutableMapping[str, Array],
    shape_of: Callable[[str], tuple[int, ...] | None],
) -> int | None:
    """Return which input says how axes change, of a resize that leaves the last one as it is."""
    if node.op_type != "Resize" or node.domain not in DEFAULT_DOMAINS:
        return None
    has_region = len(node.input) > ROI and bool(node.input[ROI])
    if has_region or any(item.name == "axes" for item in node.attribute):
        return None
    before, after = (shape_of(name) for name in (node.input[0], node.output[0]))
    if before is None or after is None or len(before) != len(TO_NCHW):
        return None
    changed = [one != other for one, other in zip(before, after, strict=True)]
    if changed[0] or changed[3] or not changed[1]:
        return None
    for index in (SCALES, SIZES):
        value = constants.get(node.input[index]) if len(node.input) > index else None
        if value is not None and np.size(value) == len(TO_NCHW):
            return index
    return None
