# SPDX-License-Identifier: Apache-2.0
"""Bilinear enlargement by factors that int8 weights do not hold exactly, as a transposed
depthwise convolution.

Enlarging by a whole factor ``f`` is a convolution of the map with zeros between its pixels, with a
triangle as kernel: of ``2 f - 1`` weights where results lie on pixels, of ``2 f`` where they lie
between them. What is outside the map is its nearest pixel, which is there before (padding). The
weights are quantized as those of any layer. With ``align_corners`` the first and last results lie
on the first and last pixels, so that ``f`` is whole where ``n`` pixels become ``f (n - 1) + 1``
(33 to 129, as in DeepLab), and nothing outside is needed.
"""

import numpy as np
import numpy.typing as npt

from opendpu.ir import Graph, Node
from opendpu.ops.bilinear import bilinear_weights
from opendpu.quantize.placement.scope import floating_ops

MAX_FACTOR = 16
"""Larger ones stay on the CPU: a layer for each of their phases would take longer."""


def upsample(graph: Graph) -> None:
    """Rewrite bilinear enlargement of what the DPU makes, in place; the last part has its name."""
    found = [node for node in graph if _factors(graph, node) is not None]
    floating = floating_ops(graph) if found else {}
    for node in found:
        (source,) = node.inputs["input"]
        factors = _factors(graph, node)
        if factors is not None and source not in floating and graph[source].kind != "data":
            _rewrite(graph, node, factors)
    if found:
        graph.sort()


def _factors(graph: Graph, node: Node) -> tuple[int, int] | None:
    """Return how often rows and columns become more, if that is a whole number and the engine has
    no weights for it."""
    if node.kind != "resize" or str(node.attrs["mode"]).upper() != "BILINEAR":
        return None
    shape = graph[node.inputs["input"][0]].shape
    if len(node.shape) != 4 or len(node.inputs["input"]) != 1:
        return None
    if node.attrs.get("align_corners"):
        found = [_between(shape[axis], node.shape[axis]) for axis in (1, 2)]
        return (found[0], found[1]) if all(0 < f <= MAX_FACTOR for f in found) else None
    (rows, rest), (columns, other) = (divmod(node.shape[a], shape[a]) for a in (1, 2))
    scale = [float(s) for s in node.attrs["scale"]]
    if rest or other or not np.allclose(scale, (columns, rows)) or max(rows, columns) > MAX_FACTOR:
        return None
    half = bool(node.attrs.get("half_pixel_centers"))
    return None if bilinear_weights(rows, columns, half=half) is not None else (rows, columns)


def _between(size: int, made: int) -> int:
    """Return how many results there are a pixel if the outermost lie on each other; 0: a fraction.

    One pixel has no distance to the next, and fewer results than pixels are not an enlargement.
    """
    if size == made:
        return 1
    factor, rest = divmod(made - 1, max(1, size - 1))
    return 0 if rest or size == 1 else factor


def _rewrite(graph: Graph, node: Node, factors: tuple[int, int]) -> None:
    half, channels = bool(node.attrs.get("half_pixel_centers")), node.shape[-1]
    corners = bool(node.attrs.get("align_corners"))
    (source,) = node.inputs["input"]
    axes = [_axis(factor, half, corners) for factor in factors]
    (rows, *vertical), (columns, *horizontal) = axes
    around = [(1 if half and f > 1 else 0, 1 if f > 1 and not corners else 0) for f in factors]
    if any(map(any, around)):
        source = _padded(graph, node, source, around)
    kernel = np.outer(rows, columns)[None, :, :, None].repeat(channels, axis=3)
    weights = graph.add_const(f"{node.name}_weights", kernel)
    bias = graph.add_const(f"{node.name}_bias", np.zeros(channels))
    node.kind = "transposed-depthwise-conv2d"
    node.inputs = {"input": [source], "weights": [weights.name], "bias": [bias.name]}
    node.attrs = {
        "kernel": [len(columns), len(rows)], "stride": list(factors[::-1]),
        "pad": [*horizontal, *vertical], "pad_mode": "FLOOR",
    }  # fmt: skip


def _axis(factor: int, half: bool, corners: bool) -> tuple[npt.NDArray[np.float64], int, int]:
    """Return the weights along one axis, and how many results are cut off before and behind.

    Result ``t`` of the whole convolution is at ``(t - (f - 1)) / f`` of the padded map, or half a
    result before that with an even kernel; result ``o`` has to be at ``o / f`` of the map, or with
    ``half`` at ``(o + 1/2) / f - 1/2``.
    """
    if factor == 1:
        return np.ones(1), 0, 0
    if corners:
        return _triangle(2 * factor - 1, factor), factor - 1, factor - 1
    if not half:
        return _triangle(2 * factor - 1, factor), factor - 1, factor
    if factor % 2:
        cut = (3 * factor - 1) // 2
        return _triangle(2 * factor - 1, factor), cut, cut
    return _triangle(2 * factor, factor), 3 * factor // 2, 3 * factor // 2


def _triangle(size: int, factor: int) -> npt.NDArray[np.float64]:
    middle = (size - 1) / 2
    return np.asarray(1 - np.abs(np.arange(size) - middle) / factor)


def _padded(graph: Graph, node: Node, source: str, around: list[tuple[int, int]]) -> str:
    """Repeat the pixels at the border; return the node."""
    batch, height, width, channels = graph[source].shape
    shape = (batch, height + sum(around[0]), width + sum(around[1]), channels)
    paddings = [0, 0, *around[0], *around[1], 0, 0]
    attrs = {"paddings": paddings, "mode": "SYMMETRIC"}
    name = graph.unique(f"{node.name}_border")
    return graph.add(name, "pad", shape, {"input": [source]}, attrs, origin=node.origin).name
