# SPDX-License-Identifier: Apache-2.0
"""Pixels that are repeated by reshapes around a tile are resized to their nearest neighbours.

Keras 3 has ``UpSampling2D`` so: ``tf.repeat`` along rows, then along columns, each an axis of 1
behind the axis that is repeated, a tile of that and a reshape. PyTorch's ``repeat_interleave`` and
``numpy.repeat`` of JAX come likewise, both axes at once too. tf2onnx leaves a transposition between
a tile and its reshape, which follows the resize then. Networks that enlarge images repeat channels,
in front of a depth-to-space that makes pixels of them.
"""

from collections.abc import Callable, MutableMapping, Sequence
from typing import NamedTuple

import numpy as np
import onnx
from onnx import helper

from opendpu.frontend.def_use import DefUse, Fusion, attributes_of, fused, with_origin
from opendpu.ir import Array

Shape = tuple[int, ...]
VIEWS = ("Unsqueeze", "Reshape")
TILES = ("Tile", "Expand")
TRANSPOSITIONS = ("Transpose",)
CHANNELS = 1
"""Axis of channels where they are in front, whose repetition is a convolution."""
OF_MAPS = {"Add", "Concat", "Conv", "DepthToSpace"}
"""What reads them then; heads that are repeated go into products."""
ROWS_AND_COLUMNS = ([1, 2], [2, 3])
"""Axes of a feature map, with channels last or in front."""


class _Repeat(NamedTuple):
    """How often each element is repeated along each axis, and the nodes that do it.

    ``order`` says which axis each of the result was.
    """

    factors: tuple[int, ...]
    nodes: list[onnx.NodeProto]
    order: tuple[int, ...]

    def then(self, more: "_Repeat") -> "_Repeat":
        """Return both, one after the other."""
        factors = list(self.factors)
        for axis, factor in enumerate(more.factors):
            factors[self.order[axis]] *= factor
        order = tuple(self.order[axis] for axis in more.order)
        return _Repeat(tuple(factors), self.nodes + more.nodes, order)


def resized(
    nodes: Sequence[onnx.NodeProto],
    constants: MutableMapping[str, Array],
    uses: MutableMapping[str, int],
    shape_of: Callable[[str], Shape | None],
    add_floats: Callable[[str, Shape], None],
) -> list[onnx.NodeProto]:
    """Return the nodes with a ``Resize`` for each group that repeats rows and columns.

    ``shape_of`` says the shape of a float32 tensor; ``constants`` gets factors, and ``add_floats``
    is told what else is new.
    """
    links = DefUse(nodes, uses)

    def find(node: onnx.NodeProto) -> Fusion | None:
        found = _repeat(node, links, shape_of)
        while found is not None:
            last = found.nodes[-1]
            following = links.readers.get(last.output[0], [])
            more = None
            if len(following) == 1 and uses[last.output[0]] == 1:
                more = _repeat(following[0], links, shape_of)
            if more is None:
                break
            found = found.then(more)
        if found is None:
            return None
        axes = [axis for axis, factor in enumerate(found.factors) if factor != 1]
        (y,), last = found.nodes[-1].output, found.nodes[-1]
        moved = list(found.order) != sorted(found.order)
        readers = {reader.op_type for reader in links.readers.get(y, [])}
        if (
            len(found.factors) == 4
            and axes == [CHANNELS]
            and not moved
            and (readers and readers <= OF_MAPS)
        ):
            channels = shape_of(node.input[0]) or ()
            return Fusion([_copied(node.input[0], channels, found, constants)], found.nodes)
        if len(found.factors) != 4 or axes not in ROWS_AND_COLUMNS:
            return None
        scales, large = f"{y}_repeats", f"{y}_repeated" if moved else y
        constants[scales] = np.array(found.factors, np.float32)
        made = [helper.make_node(
            "Resize", [node.input[0], "", scales], [large], last.name, mode="nearest",
            coordinate_transformation_mode="asymmetric", nearest_mode="floor",
        )]  # fmt: skip
        if moved:
            sizes = zip(shape_of(node.input[0]) or (), found.factors, strict=True)
            add_floats(large, tuple(size * factor for size, factor in sizes))
            made.append(helper.make_node("Transpose", [large], [y], perm=found.order))
        return Fusion([with_origin(one, last) for one in made], found.nodes)

    return fused(nodes, find)


def _copied(
    x: str, shape: Shape, found: _Repeat, constants: MutableMapping[str, Array]
) -> onnx.NodeProto:
    """Return a convolution of one pixel that repeats each channel."""
    (y,), factor = found.nodes[-1].output, found.factors[CHANNELS]
    copies = np.repeat(np.eye(shape[CHANNELS], dtype=np.float32), factor, axis=0)
    constants[f"{y}_copies"] = copies[:, :, None, None]
    made = helper.make_node("Conv", [x, f"{y}_copies"], [y], found.nodes[-1].name)
    return with_origin(made, found.nodes[-1])


def _repeat(
    view: onnx.NodeProto, links: DefUse, shape_of: Callable[[str], Shape | None]
) -> _Repeat | None:
    """Return what views, a tile of their axes of 1 and a reshape repeat."""
    nodes: list[onnx.NodeProto] = []
    for kinds in (VIEWS, VIEWS, TILES, TRANSPOSITIONS, ("Reshape",)):
        start = [view] if not nodes else _only(links, nodes[-1].output[0], kinds)
        if start and start[0].op_type in kinds:
            nodes += start
        elif kinds not in (VIEWS, TRANSPOSITIONS) or not nodes:  # these may be missing
            return None
    (at,) = [number for number, node in enumerate(nodes) if node.op_type in TILES]
    factors = _factors(
        *(shape_of(name) for name in (view.input[0], nodes[at].input[0], nodes[at].output[0]))
    )
    shape, made = shape_of(view.input[0]), shape_of(nodes[-1].output[0])
    if factors is None or shape is None:
        return None
    order = tuple(range(len(shape)))
    if len(nodes) > at + 2:
        tiled = shape_of(nodes[at].input[0]) or ()
        moved = _order_of_kept(attributes_of(nodes[at + 1])["perm"], factors, len(tiled))
        if moved is None:
            return None
        order = moved
    grown = tuple(shape[axis] * factors[axis] for axis in order)
    return _Repeat(factors, nodes, order) if grown == made else None


def _order_of_kept(
    perm: Sequence[int], factors: Sequence[int], rank: int
) -> tuple[int, ...] | None:
    """Return the order that a transposition has brought axes to, each with its repetitions.

    None where one has been separated from those, or where these are not an axis each.
    """
    sizes = [1 if factor == 1 else 2 for factor in factors]
    if sum(sizes) != rank:
        return None
    starts = [sum(sizes[:axis]) for axis in range(len(sizes))]
    order = [starts.index(axis) for axis in perm if axis in starts]
    expected = [
        start for axis in order for start in range(starts[axis], starts[axis] + sizes[axis])
    ]
    return tuple(order) if expected == list(perm) else None


def _only(links: DefUse, name: str, kinds: Sequence[str]) -> list[onnx.NodeProto]:
    """Return what alone reads a tensor, if it is one of some operators."""
    found = (links.only_reader(name, kind) for kind in kinds)
    return [node for node in found if node is not None]


def _factors(
    given: Shape | None, seen: Shape | None, tiled: Shape | None
) -> tuple[int, ...] | None:
    """Return how often elements of each axis of ``given`` are repeated, from the shapes between."""
    if given is None or seen is None or tiled is None or len(seen) != len(tiled):
        return None
    factors: list[int] = []
    kept: list[int] = []
    for before, after in zip(seen, tiled, strict=True):
        if before == after:
            kept.append(before)
            factors.append(1)
        elif before == 1 and factors:
            factors[-1] *= after
        else:
            return None
    return tuple(factors) if tuple(kept) == given else None
