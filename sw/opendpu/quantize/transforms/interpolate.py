# SPDX-License-Identifier: Apache-2.0
"""Resize by any factor on the DPU: a product with a constant matrix along each axis.

Each row of a bilinear result is made of two neighbouring rows of the map, and so is each column of
two columns; of a nearest one, of a single row or column. Which, and with which shares, is the same
for all channels; with ``align_corners``, or factors that are no whole numbers, it is another pair
of shares for nearly every row. As products with a constant matrix they go to the compiler, which
makes depthwise convolutions of them (:mod:`opendpu.compiler.legalize.along_axis`). Shares are
rounded to what int8 holds beside one.
"""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from opendpu.ir import Graph, Node
from opendpu.ops import cost
from opendpu.ops.banded import blocks_of
from opendpu.ops.bilinear import bilinear_weights
from opendpu.quantize.placement.scope import floating_ops
from opendpu.quantize.transforms.parts import Parts

STEPS = 64
"""Shares are multiples of one over this, so that int8 holds them and one."""
MAX_SIZE = 1024
"""Rows or columns of the result: each may be a layer of its own."""
LAYER_CYCLES = 200
PIXEL_CYCLES = 5
"""Columns of the result are far from each other in DDR."""
BYTES_PER_CYCLE = 16
MAX_STEP = 8
"""Rows or columns from one result of a layer to the next."""
MAP = 4

Matrix = npt.NDArray[np.float64]


def interpolate(graph: Graph) -> None:
    """Rewrite resizes that no engine has, of what the DPU makes, in place.

    Those that the CPU makes sooner stay, with that as the reason.
    """
    found = [node for node in graph if _is_interpolation(graph, node)]
    floating = floating_ops(graph) if found else {}
    for node in found:
        (source,) = node.inputs["input"]
        if source in floating or graph[source].kind == "data":
            continue
        matrices = _matrices(node, graph[source].shape)
        node.reason = _too_slow(graph, node, matrices)
        if not node.reason:
            _rewrite(Parts(graph, node), matrices)
    if found:
        graph.sort()


def _too_slow(graph: Graph, node: Node, matrices: Mapping[int, Matrix]) -> str:
    """Return why the CPU takes a resize; nothing if the DPU makes it sooner."""
    shape = graph[node.inputs["input"][0]].shape
    (rows, columns), channels = node.shape[1:3], node.shape[3]
    layers = sum(
        len(block.runs) for matrix in matrices.values() for block in blocks_of(matrix, MAX_STEP)
    )
    cycles = LAYER_CYCLES * layers
    if rows != shape[1]:
        cycles += rows * shape[2] * channels // BYTES_PER_CYCLE
    if columns != shape[2]:
        cycles += rows * columns * (PIXEL_CYCLES + channels // BYTES_PER_CYCLE)
    elements = cost.elements(node)
    cpu = cost.cpu_seconds(0, elements) + cost.handover_seconds(2 * elements)
    dpu = cycles / cost.CLOCK_HZ
    if dpu <= cpu:
        return ""
    return (
        f"resize of {shape[1]}x{shape[2]} to {rows}x{columns} would be {layers} layers, "
        f"{dpu * 1e3:.1f} ms where the CPU takes {cpu * 1e3:.1f}; fewer pixels would lift it"
    )


def _is_interpolation(graph: Graph, node: Node) -> bool:
    """Return whether an op is a resize that the engines have no weights for."""
    if node.kind != "resize":
        return False
    if len(node.shape) != MAP or len(node.inputs["input"]) != 1:
        return False
    shape = graph[node.inputs["input"][0]].shape
    if shape[1:3] == (1, 1) or max(node.shape[1:3]) > MAX_SIZE:
        return False
    (rows, rest), (columns, other) = (divmod(node.shape[axis], shape[axis]) for axis in (1, 2))
    if _is_nearest(node):
        return bool(rest or other)
    if rest or other or node.attrs.get("align_corners"):
        return True
    if not np.allclose([float(s) for s in node.attrs["scale"]], (columns, rows)):
        return True
    half = bool(node.attrs.get("half_pixel_centers"))
    return bilinear_weights(rows, columns, half=half) is None


def _is_nearest(node: Node) -> bool:
    return str(node.attrs["mode"]).upper() == "NEAREST"


def _matrices(node: Node, shape: tuple[int, ...]) -> dict[int, Matrix]:
    """Return the matrices of the axes whose size changes, in steps, for a map of some shape."""
    across, down = (float(s) for s in node.attrs["scale"])
    return {
        axis: shares(shape[axis], node.shape[axis], scale, node)
        for axis, scale in ((1, down), (2, across))
        if node.shape[axis] != shape[axis]
    }


def _rewrite(parts: Parts, matrices: Mapping[int, Matrix]) -> None:
    graph, node = parts.graph, parts.node
    (source,) = node.inputs["input"]
    batch, height, width, channels = graph[source].shape
    rows, attrs = node.shape[1], {"transpose_a": False, "transpose_b": False}
    constants = {
        axis: parts.constant("rows" if axis == 1 else "columns", matrix / STEPS)
        for axis, matrix in matrices.items()
    }
    if 1 in constants:
        flat = parts.reshaped("lines", source, (batch, height, width * channels))
        down = (batch, rows, width * channels)
        flat = parts.add("down", "matmul", down, [constants[1], flat], attrs)
        source = parts.reshaped("map", flat, (batch, rows, width, channels))
    if 2 in constants:
        source = parts.add("across", "matmul", node.shape, [constants[2], source], attrs)
    parts.end(source)


def shares(size: int, made: int, scale: float, node: Node) -> Matrix:
    """Return what each of ``made`` results along an axis is made of, ``[made, size]``, in steps."""
    if int(np.floor(np.float32(scale) * size)) != made:
        scale = made / size
    places = np.arange(made, dtype=np.float64)
    if _is_nearest(node):
        places = np.floor(places / scale)
    elif node.attrs.get("align_corners"):
        places = places * (size - 1) / max(1, made - 1)
    elif node.attrs.get("half_pixel_centers"):
        places = (places + 0.5) / scale - 0.5
    else:
        places = places / scale
    steps = np.round(np.clip(places, 0, size - 1) * STEPS).astype(int)
    first, share = steps // STEPS, steps % STEPS
    matrix = np.zeros((made, size))
    matrix[np.arange(made), first] = STEPS - share
    matrix[np.arange(made), np.minimum(first + 1, size - 1)] += share
    return matrix
