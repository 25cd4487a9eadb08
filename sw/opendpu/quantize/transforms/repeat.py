# SPDX-License-Identifier: Apache-2.0
"""Sums and products of many axes, in which a computed operand repeats along the last ones.

Attention with decomposed positions (ViTDet, SAM, MViTv2) adds to each query's scores
``[height, width]`` a number for each row and one for each column. Of four axes, with all places of
the keys as channels, such an operand is a product with a constant matrix of zeros and ones. What
repeats for every pixel is an operand of one pixel where the axes behind are channels.
"""

import math

import numpy as np

from opendpu.ir import Graph, Node
from opendpu.quantize.transforms.rewrite import MAX_TERMS

KINDS = ("add", "mul")
RANK = 4
"""Axes of what the DPU adds and multiplies."""
WIDEST = 4096
"""Elements along the axes in which an operand repeats, at most."""


def repeat(graph: Graph) -> None:
    """Give such operations four axes and operands of the result's size, in place."""
    for node in list(graph):
        if node.kind not in KINDS or len(node.shape) <= RANK or _is_joined(graph, node):
            continue
        split = _first_repeated(graph, node)
        if split is not None or _repeats_pixels(graph, node):
            _flatten(graph, node, RANK - 1 if split is None else split)
    graph.sort()
    graph.prune()


def _is_joined(graph: Graph, node: Node) -> bool:
    """Return whether the terms of a sum went to the only op that reads it, a sum too."""
    users = graph.consumers(node.name)
    if node.kind != "add" or len(users) != 1 or node.name in graph.outputs:
        return False
    (user,) = users
    terms = [
        term for name in user.inputs["input"]
        for term in (node.inputs["input"] if name == node.name else [name])
    ]  # fmt: skip
    if user.kind != "add" or user.shape != node.shape or len(terms) > MAX_TERMS or any(
        graph[term].value is not None for term in terms
    ):  # fmt: skip
        return False
    user.inputs["input"] = terms
    return True


def _first_repeated(graph: Graph, node: Node) -> int | None:
    """Return the first axis along which an operand repeats; none if it is none that counts."""
    shapes = [_padded(graph[name].shape, len(node.shape)) for name in node.inputs["input"]]
    if any(graph[name].value is not None for name in node.inputs["input"]):
        return None
    apart = [
        axis for shape in shapes for axis, size in enumerate(shape) if size != node.shape[axis]
    ]
    if node.shape[0] != 1 or not apart or min(apart) < 2:
        return None
    return min(apart) if math.prod(node.shape[min(apart) :]) <= WIDEST else None


def _repeats_pixels(graph: Graph, node: Node) -> bool:
    """Return whether operands repeat for all rows and columns of a map, whose channels are groups.

    As where a number a channel chooses between maps (SKNet, ResNeSt).
    """
    shapes = [_padded(graph[name].shape, len(node.shape)) for name in node.inputs["input"]]
    computed = all(graph[name].value is None for name in node.inputs["input"])
    pixels, groups = node.shape[: RANK - 1], node.shape[RANK - 1 :]
    return computed and node.shape[0] == 1 and node.shape in shapes and all(
        shape[RANK - 1 :] == groups and shape[: RANK - 1] in (pixels, (1, 1, 1))
        for shape in shapes
    )  # fmt: skip


def _flatten(graph: Graph, node: Node, split: int) -> None:
    """Make the axes from ``split`` on channels."""
    front = (1, node.shape[1], math.prod(node.shape[2:split]))
    behind = node.shape[split:]
    operands = []
    for name in node.inputs["input"]:
        padded = _padded(graph[name].shape, len(node.shape))
        own = padded[split:]
        shape = (1, padded[1], math.prod(padded[2:split]), math.prod(own))
        view = graph.add(
            graph.unique(f"{node.name}_operand"), "reshape", shape, {"input": [name]},
            {"shape": list(shape)}, origin=node.origin,
        ).name  # fmt: skip
        operands.append(view if own == behind else _repeated(graph, node, view, own, behind))
    whole = (*front, math.prod(behind))
    made = graph.add(
        graph.unique(f"{node.name}_flat"), node.kind, whole, {"input": operands},
        dict(node.attrs), origin=node.origin,
    )  # fmt: skip
    node.kind, node.inputs = "reshape", {"input": [made.name]}
    node.attrs = {"shape": list(node.shape)}


def _repeated(
    graph: Graph, node: Node, view: str, own: tuple[int, ...], behind: tuple[int, ...]
) -> str:
    """Add the product that repeats the channels of an operand."""
    places = np.broadcast_to(np.arange(math.prod(own)).reshape(own), behind).ravel()
    matrix = np.eye(math.prod(own), dtype=np.float32)[:, places]
    weights = graph.add_const(graph.unique(f"{node.name}_places"), matrix).name
    shape = (*graph[view].shape[:-1], places.size)
    attrs = {"transpose_a": False, "transpose_b": False}
    return graph.add(
        graph.unique(f"{node.name}_repeated"), "matmul", shape, {"input": [view, weights]}, attrs,
        origin=node.origin,
    ).name  # fmt: skip


def _padded(shape: tuple[int, ...], rank: int) -> tuple[int, ...]:
    return (1,) * (rank - len(shape)) + shape
