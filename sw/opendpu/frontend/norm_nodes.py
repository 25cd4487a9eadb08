# SPDX-License-Identifier: Apache-2.0
"""What a normalization is over, and the nodes of ONNX that compute it."""

import dataclasses
import math
from collections.abc import Callable, MutableMapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper

from opendpu.frontend.def_use import with_origin
from opendpu.frontend.feature_norms import MAP_RANKS, Shape
from opendpu.ir import Array
from opendpu.ops.foreign import LAYER_NORM

IMAGE_RANK, CHANNELS = 4, 1
"""Axes of ``NCHW``, and which one is channels."""


@dataclasses.dataclass(frozen=True)
class Span:
    """The axes that a normalization is over, and those that scales and biases are along.

    Parameters
    ----------
    shape
        Of what is normalized.
    axes
        Each mean is over these.
    channels
        Axes, one behind the other, that scales and biases are along: the normalized one of rows,
        or groups and the channels of a group.
    groups
        How many groups of channels each sample has; 0 for rows.
    """

    shape: Shape
    axes: tuple[int, ...]
    channels: tuple[int, ...]
    groups: int = 0

    def by_channel(self, value: Array) -> Array | None:
        """Return a constant operand as one number a channel; none if it is not that."""
        if value.ndim > len(self.shape):
            return None
        aligned = (1,) * (len(self.shape) - value.ndim) + value.shape
        inside = tuple(aligned[axis] for axis in self.channels)
        sizes = tuple(self.shape[axis] for axis in self.channels)
        if math.prod(inside) != value.size or any(
            one not in (1, size) for one, size in zip(inside, sizes, strict=True)
        ):
            return None
        return np.broadcast_to(value.reshape(inside), sizes).ravel().astype(np.float32)


def span_of(shape: Shape | None, axes: Sequence[int] | None) -> Span | None:
    """Return what means over axes of a tensor normalize; none if that is no operator's.

    Rows are the last axis, or the channels of ``NCHW``. Groups are ``[N, space, G, K]`` with means
    over space and K, or ``[N, G, K, space]``; of one channel each, ``[N, space, C]`` or
    ``[N, C, space]`` with means over space.
    """
    if not shape or axes is None:
        return None
    rank = len(shape)
    found = tuple(sorted(axis % rank for axis in axes))
    if len(found) == 1:
        is_channels = found[0] == CHANNELS and rank == IMAGE_RANK
        return Span(shape, found, found) if found[0] == rank - 1 or is_channels else None
    every = tuple(range(rank))
    for channels, groups in (
        ((rank - 2, rank - 1), rank - 2), ((1, 2), 1), ((rank - 1,), rank - 1), ((1,), 1),
    ):  # fmt: skip
        is_map = rank - len(channels) + 1 in MAP_RANKS
        is_over = tuple(axis for axis in every[1:] if axis != groups) == found
        if is_map and is_over and (len(channels) == 1 or rank > IMAGE_RANK):
            return Span(shape, found, channels, shape[groups])
    return None


def written(
    op_type: str,
    x: str,
    span: Span,
    epsilon: float,
    last: onnx.NodeProto,
    parameters: tuple[Array | None, Array | None],
    constants: MutableMapping[str, Array],
    add_floats: Callable[[str, Shape], None],
) -> list[onnx.NodeProto]:
    """Return the nodes of a normalization, which make what ``last`` made.

    ``parameters`` are scale and bias by channel; ``constants`` gets them, or ones and zeros, and
    ``add_floats`` is told what is new.
    """
    (y,), count = last.output, math.prod(span.shape[axis] for axis in span.channels)
    inputs = [""]
    for value, fill in zip(parameters, (1.0, 0.0), strict=True):
        if value is None and not fill and not span.groups:
            continue
        made = f"{y}_{'scale' if fill else 'bias'}"
        constants[made] = np.full(count, fill, np.float32) if value is None else value
        inputs.append(made)
    moves = _moves(span)
    nodes: list[onnx.NodeProto] = []
    shape, source = span.shape, x
    for number, (kind, argument, result) in enumerate(moves):
        nodes.append(_move(kind, argument, source, f"{y}_there{number}", constants))
        shape, source = result, nodes[-1].output[0]
        add_floats(source, shape)
    inputs[0] = source
    attrs: dict[str, Any] = {"num_groups": span.groups} if span.groups else {"axis": -1}
    made_node = helper.make_node(
        "GroupNormalization" if span.groups else op_type, inputs, [f"{y}_normalized"], last.name,
        epsilon=epsilon, **attrs,
    )  # fmt: skip
    nodes.append(with_origin(made_node, last))
    shapes = [span.shape, *(result for _, _, result in moves)]
    for number, (kind, argument, _) in reversed(list(enumerate(moves))):
        add_floats(nodes[-1].output[0], shapes[number + 1])
        back = list(shapes[number]) if kind == "Reshape" else [
            argument.index(axis) for axis in range(len(argument))
        ]  # fmt: skip
        nodes.append(_move(kind, back, nodes[-1].output[0], f"{y}_back{number}", constants))
    nodes[-1].output[0] = y
    return nodes


def _moves(span: Span) -> list[tuple[str, list[int], Shape]]:
    """Return what brings a tensor to the operator's order: operators, what they need, shapes."""
    rank, shape, found = len(span.shape), span.shape, []
    first, *more = span.channels
    if more:
        count = math.prod(shape[axis] for axis in span.channels)
        shape = (*shape[:first], count, *shape[more[-1] + 1 :])
        rank = len(shape)
        found.append(("Reshape", list(shape), shape))
    place = CHANNELS if span.groups else rank - 1
    if first != place:
        order = [axis for axis in range(rank) if axis != first]
        order.insert(place, first)
        found.append(("Transpose", order, tuple(shape[axis] for axis in order)))
    return found


def _move(
    kind: str, argument: Sequence[int], source: str, result: str,
    constants: MutableMapping[str, Array],
) -> onnx.NodeProto:  # fmt: skip
    if kind == "Transpose":
        return helper.make_node(kind, [source], [result], result, perm=list(argument))
    constants[f"{result}_shape"] = np.array(argument, np.int64)
    return helper.make_node(kind, [source, f"{result}_shape"], [result], result)


def may_be_grouped(op_type: str, span: Span) -> bool:
    """Return whether there is an operator: groups have a mean that is taken away."""
    return not span.groups or op_type == LAYER_NORM
