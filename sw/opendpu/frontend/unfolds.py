# SPDX-License-Identifier: Apache-2.0
"""Sliding windows that are gathered row by row and column by column, as a convolution.

``torch.nn.Unfold`` is exported so: a table of places of taps and windows along each axis. A
convolution of each channel with as many kernels as there are taps, each with a single one, makes
the same (T2T-ViT, MobileViTV2).
"""

from collections.abc import Callable, MutableMapping, Sequence

import numpy as np
import onnx
from onnx import helper

from opendpu.frontend.def_use import DefUse, Fusion, attributes_of, fused, with_origin
from opendpu.ir import Array
from opendpu.ops.foreign import DEFAULT_DOMAINS

Shape = tuple[int, ...]
ROWS, COLUMNS = 2, 4
"""Axes that are gathered from: rows, and columns behind the taps and windows of rows."""
TAPS_FIRST = [0, 1, 2, 4, 3, 5]
"""The order in which both axes of taps are in front of those of windows."""
MAP = 4
"""Axes of a feature map."""
MOST_TAPS = 7
"""Of a kernel along an axis; larger ones would be mostly products with zeros."""


def convolved(
    nodes: Sequence[onnx.NodeProto],
    constants: MutableMapping[str, Array],
    uses: MutableMapping[str, int],
    shape_of: Callable[[str], Shape | None],
    add_floats: Callable[[str, Shape], None],
) -> list[onnx.NodeProto]:
    """Return the nodes with a convolution and a reshape for each group that gathers windows.

    ``shape_of`` says the shape of a float32 tensor; ``constants`` gets kernels, ``add_floats`` what
    else is new.
    """
    links = DefUse(nodes, uses)

    def find(rows: onnx.NodeProto) -> Fusion | None:
        if not _gathers(rows, ROWS):
            return None
        columns = links.only_reader(rows.output[0], "Gather")
        if columns is None or not _gathers(columns, COLUMNS):
            return None
        last = links.only_reader(columns.output[0], "Transpose")
        given = shape_of(rows.input[0])
        if (
            last is None
            or attributes_of(last).get("perm") != TAPS_FIRST
            or given is None
            or len(given) != MAP
            or columns.input[0] != rows.output[0]
        ):
            return None
        steps = [
            _steps(constants.get(node.input[1]), size)
            for node, size in zip((rows, columns), given[ROWS:], strict=True)
        ]
        if None in steps:
            return None
        kernel, strides, dilations, windows = zip(*filter(None, steps), strict=True)
        (y,), count = last.output, int(np.prod(kernel))
        constants[f"{y}_taps"] = np.tile(
            np.eye(count, dtype=np.float32).reshape(count, 1, *kernel), (given[1], 1, 1, 1)
        )
        constants[f"{y}_shape"] = np.array([*given[:2], *kernel, *windows], np.int64)
        add_floats(f"{y}_patches", (given[0], given[1] * count, *windows))
        made = [
            helper.make_node(
                "Conv", [rows.input[0], f"{y}_taps"], [f"{y}_patches"], f"{last.name}_patches",
                group=given[1], kernel_shape=kernel, strides=strides, dilations=dilations,
            ),
            helper.make_node("Reshape", [f"{y}_patches", f"{y}_shape"], [y], last.name),
        ]  # fmt: skip
        return Fusion([with_origin(one, last) for one in made], [rows, columns, last])

    return fused(nodes, find)


def _gathers(node: onnx.NodeProto, axis: int) -> bool:
    return (
        node.op_type == "Gather"
        and len(node.input) == 2
        and len(node.output) == 1
        and node.domain in DEFAULT_DOMAINS
        and attributes_of(node).get("axis", 0) == axis
    )


def _steps(places: Array | None, size: int) -> tuple[int, int, int, int] | None:
    """Return taps, stride, dilation and windows along an axis; none where places are no windows."""
    if places is None or places.ndim != 2 or not 1 <= places.shape[0] <= MOST_TAPS:
        return None
    taps, windows = places.shape
    dilation = int(places[1, 0] - places[0, 0]) if taps > 1 else 1
    stride = int(places[0, 1] - places[0, 0]) if windows > 1 else size
    wanted = np.arange(taps)[:, None] * dilation + np.arange(windows) * stride
    if min(dilation, stride) < 1 or not np.array_equal(places, wanted):
        return None
    fits = (size - dilation * (taps - 1) - 1) // stride + 1 == windows
    return (taps, stride, dilation, windows) if fits else None
