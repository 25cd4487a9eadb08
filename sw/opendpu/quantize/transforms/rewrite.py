# SPDX-License-Identifier: Apache-2.0
"""Ops that the DPU has only in parts, as those parts, so that each gets a scale of its own."""

import numpy as np

from opendpu.ir import Graph, Node
from opendpu_arch.isa import AluInit, ElewInit

MAX_TERMS = len(ElewInit.values_of("id"))
"""Terms of an addition of the DPU: inputs that ELEWINIT can describe."""


MAX_SIDE = min(AluInit.values_of(name)[-1] for name in ("kernel_h", "kernel_w"))
"""Rows and columns of a pool's window, at most."""
FACTORS = 64
"""Steps of a factor a little larger than one."""
SMALL_AVERAGE = 1024
"""Pixels of a map whose average is taken at once. Of a larger one that is done in two steps: the
first follows the rows as they are made, the second fits the banks of every target."""
LEFT = 40
"""Rows and columns of what the first step leaves, at most."""
TALLEST = 64
"""Rows of what windows of one row leave, at most: on the smallest target eight share a bank."""
WIDEST = 16
"""Columns of a window of the first step that has one row: kernels of the array have no more, and no
stride over half of that where two pixels are one."""


def rewrite(graph: Graph) -> None:
    """Split hard-swish, long sums and large averages, in place; the last part has the op's name.

    Rows of pixels that are longer than any window become maps, of which a pool takes all.
    """
    for node in graph:
        if node.kind == "hard-swish":
            _hard_swish(graph, node)
        elif node.kind == "add":
            _long_sum(graph, node)
        elif node.kind in ("avgpool2d", "maxpool2d"):
            pool = _long_row(graph, node)
            if pool.kind == "avgpool2d":
                _large_average(graph, pool)
    graph.sort()


def _hard_swish(graph: Graph, node: Node) -> None:
    """Make ``x * hard-sigmoid(x)``."""
    name = graph.unique(f"{node.name}_gate")
    gate = graph.add(
        name, "hard-sigmoid", node.type, {"input": node.inputs["input"]}, origin=node.origin
    )
    node.kind = "mul"
    node.inputs = {"input": [*node.inputs["input"], gate.name]}


def _long_sum(graph: Graph, node: Node) -> None:
    """Add at most four terms at a time; the shapes of all have to be that of the result."""
    terms = list(node.inputs["input"])
    if any(graph[term].shape != node.shape for term in terms):
        return
    while len(terms) > MAX_TERMS:
        some, terms = terms[:MAX_TERMS], terms[MAX_TERMS:]
        name = graph.unique(f"{node.name}_part")
        part = graph.add(name, "add", node.type, {"input": some}, origin=node.origin)
        terms.append(part.name)
    node.inputs["input"] = terms


def _long_row(graph: Graph, node: Node) -> Node:
    """Make of the pixels that a pool takes all a map whose sides no window is too small for.

    Returns the pool.

    It is as square as it can be. Where no sides are short enough, as of a prime number, an average
    is that of some zeros too, which a factor takes off again.
    """
    (source,) = node.inputs["input"]
    batch, height, width, channels = graph[source].shape
    if max(height, width) <= MAX_SIDE or not _takes_all(graph, node):
        return node
    rows, columns = _squarest(height * width)
    if columns > MAX_SIDE and node.kind == "avgpool2d":
        source, node = _with_zeros(graph, node)
        rows, columns = _squarest(graph[source].shape[2])
    if columns > MAX_SIDE:
        return node
    shape = (batch, rows, columns, channels)
    made = graph.add(
        graph.unique(f"{node.name}_map"), "reshape", shape, {"input": [source]},
        {"shape": list(shape)}, origin=node.origin,
    )  # fmt: skip
    size = [columns, rows]
    node.inputs = {"input": [made.name]}
    node.attrs = {**node.attrs, "kernel": size, "stride": size}
    return node


def _with_zeros(graph: Graph, node: Node) -> tuple[str, Node]:
    """Return the pixels of a map as one row with zeros behind, and the pool of that.

    The node itself becomes a factor behind. So many zeros are added that int8 holds it.
    """
    (source,) = node.inputs["input"]
    batch, height, width, channels = graph[source].shape
    pixels = height * width
    sizes = range(pixels + 1, pixels + max(pixels // 16, 2 * MAX_SIDE // 16) + 1)
    fitting = [size for size in sizes if _squarest(size)[1] <= MAX_SIDE] or [pixels]
    size = min(fitting, key=lambda n: abs(round(n / pixels * FACTORS) / FACTORS - n / pixels))
    row = graph.add(
        graph.unique(f"{node.name}_row"), "reshape", (batch, 1, pixels, channels),
        {"input": [source]}, {"shape": [batch, 1, pixels, channels]}, origin=node.origin,
    )  # fmt: skip
    paddings = [0, 0, 0, 0, 0, size - pixels, 0, 0]
    attrs = {"paddings": paddings, "mode": "CONSTANT", "constant_values": [0.0] * 8}
    padded = graph.add(
        graph.unique(f"{node.name}_padded"), "pad", (batch, 1, size, channels),
        {"input": [row.name]}, attrs, origin=node.origin,
    )  # fmt: skip
    pool = graph.add(
        graph.unique(f"{node.name}_pool"), node.kind, node.type, {"input": [padded.name]},
        node.attrs, origin=node.origin,
    )  # fmt: skip
    node.kind, node.attrs = "scale", {"axis": 3}
    scale, bias = (np.full(channels, size / pixels), np.zeros(channels))
    node.inputs = {
        "input": [pool.name],
        "scale": [graph.add_const(graph.unique(f"{node.name}_factor"), scale).name],
        "bias": [graph.add_const(graph.unique(f"{node.name}_offset"), bias).name],
    }  # fmt: skip
    return padded.name, pool


def _takes_all(graph: Graph, node: Node) -> bool:
    """Return whether a pool has one window, which is the map."""
    _, height, width, _ = graph[node.inputs["input"][0]].shape
    whole = node.attrs.get("global") or list(node.attrs["kernel"]) == [width, height]
    return (node.shape[1], node.shape[2]) == (1, 1) and bool(whole) and not any(node.attrs["pad"])


def _large_average(graph: Graph, node: Node) -> None:
    """Average windows that fill a large map, then those averages.

    The windows are the smallest ones that leave few averages, of those with an exact factor (powers
    of two) if there are any. Those of a single row are best: whoever makes the map can then write
    every row to a bank of its own. The averages become as many rows as columns, if need be.
    """
    (source,) = node.inputs["input"]
    batch, height, width, channels = graph[source].shape
    if height * width <= SMALL_AVERAGE or not _takes_all(graph, node):
        return
    rows, columns = _row(height, width) or _window(height, width)
    if (rows, columns) == (height, width):
        return
    window = [columns, rows]
    part = graph.add(
        graph.unique(f"{node.name}_part"), "avgpool2d",
        (batch, height // rows, width // columns, channels), {"input": [source]},
        {**node.attrs, "kernel": window, "stride": window, "global": False}, origin=node.origin,
    )  # fmt: skip
    left = (height // rows, width // columns)
    if left[0] > TALLEST or left[1] > LEFT:
        left = _squarest(left[0] * left[1])
        part = graph.add(
            graph.unique(f"{part.name}_reshape"), "reshape", (batch, *left, channels),
            {"input": [part.name]}, {"shape": [batch, *left, channels]}, origin=node.origin,
        )  # fmt: skip
    node.inputs = {"input": [part.name]}
    node.attrs = {**node.attrs, "kernel": [*left[::-1]], "stride": [*left[::-1]]}


def _row(height: int, width: int) -> tuple[int, int] | None:
    """Return the smallest window of one row with an exact factor that leaves few averages.

    One whose averages are as few rows and columns as it takes comes before one whose averages have
    to be put in another shape.
    """
    windows = [
        columns
        for columns in _divisors(width)
        if columns & (columns - 1) == 0 and columns <= WIDEST
        and height * width <= SMALL_AVERAGE * columns
    ]  # fmt: skip
    for columns in windows:
        if height <= TALLEST and width <= LEFT * columns:
            return 1, columns
    for columns in windows:
        if max(_squarest(height * width // columns)) <= LEFT:
            return 1, columns
    return None


def _window(height: int, width: int) -> tuple[int, int]:
    """Return the window that is preferred of those that leave few averages."""
    windows = [
        (rows, columns)
        for rows in _divisors(height)
        for columns in _divisors(width)
        if height <= LEFT * rows
        and width <= LEFT * columns
        and height * width <= SMALL_AVERAGE * rows * columns
    ]
    return min(windows, key=_preference)


def _squarest(pixels: int) -> tuple[int, int]:
    """Return the rows and columns of so many pixels that are nearest to each other."""
    rows = max(n for n in _divisors(pixels) if n * n <= pixels)
    return rows, pixels // rows


def _divisors(size: int) -> list[int]:
    return [n for n in range(1, size + 1) if size % n == 0]


def _preference(window: tuple[int, int]) -> tuple[bool, int, int, int]:
    """Return what a window of the first step is compared by; the least is best."""
    rows, columns = window
    pixels = rows * columns
    return pixels & (pixels - 1) != 0, pixels, abs(rows - columns), rows
