# SPDX-License-Identifier: Apache-2.0
"""Layers as products of matrices: what single elements of the result are computed from.

Every layer computes ``result[row, g * outputs + o] = sum_k input[row, k, g] * weights[k, g, o]``,
where a row is a position of the feature map of a sample, ``g`` a group of channels and ``k`` runs
over the kernel and the input channels of a group. Of large maps, a few positions of each sample
tell as much as all.
"""

import dataclasses
import math

import numpy as np
import numpy.typing as npt

from opendpu.ir import Array, Graph, Node
from opendpu.ops.window import explicit_pad, pair, transposed_pad

Indices = npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True)
class Form:
    """The sizes of a layer as a product: groups, terms of a sum, and outputs of a group."""

    groups: int
    terms: int
    outputs: int


def form_of(graph: Graph, layer: Node) -> Form:
    """Return the sizes of a layer as a product."""
    shape = graph[layer.inputs["weights"][0]].shape
    if _is_depthwise(layer):
        multiplier, height, width, channels = shape
        return Form(channels, height * width, multiplier)
    groups = int(layer.attrs.get("group") or 1)
    return Form(groups, math.prod(shape[1:]), shape[0] // groups)


def as_matrix(form: Form, layer: Node, weights: Array) -> Array:
    """Return weights as ``[terms, groups, outputs]``."""
    if _is_depthwise(layer):
        return weights.transpose(1, 2, 3, 0).reshape(form.terms, form.groups, form.outputs)
    split = weights.reshape(form.groups, form.outputs, form.terms)
    return split.transpose(2, 0, 1)


def as_weights(form: Form, layer: Node, matrix: Array, shape: tuple[int, ...]) -> Array:
    """Return what :func:`as_matrix` was given."""
    if _is_depthwise(layer):
        multiplier, height, width, channels = shape
        split = matrix.reshape(height, width, channels, multiplier)
        return np.ascontiguousarray(split.transpose(3, 0, 1, 2))
    return np.ascontiguousarray(matrix.transpose(1, 2, 0).reshape(shape))


def positions(shape: tuple[int, ...], count: int, rng: np.random.Generator) -> Indices:
    """Return at most ``count`` positions of a result ``[..., channels]``, by number."""
    total = math.prod(shape[:-1])
    if total <= count:
        return np.arange(total)
    return np.sort(rng.choice(total, count, replace=False))


def at(array: Array, places: Indices) -> Array:
    """Return the channels of a result at some positions: ``[rows, channels]``."""
    return np.asarray(array[np.unravel_index(places, array.shape[:-1])])  # a view would be copied


def inputs_at(layer: Node, form: Form, source: Array, shape: Array | tuple[int, ...],
              kernel: tuple[int, ...], places: Indices,
              out: Array | None = None) -> Array:  # fmt: skip
    """Return what some positions of the result are computed from: ``[rows, terms, groups]``.

    Parameters
    ----------
    layer, form
        The layer.
    source
        Its input, samples in front.
    shape
        The shape of its result, for as many samples.
    kernel
        The shape of its weights.
    places
        The positions, see :func:`positions`.
    out
        Where to write it, in the order of memory; a new array if not given.
    """
    if out is None:
        out = np.empty((len(places), form.terms, form.groups), source.dtype)
    if layer.kind == "inner-product":
        np.take(source.reshape(-1, form.terms, 1), places, axis=0, out=out, mode="clip")
        return out
    batch, rows, columns, _ = shape
    sample, rest = np.divmod(places, rows * columns)
    row, column = np.divmod(rest, columns)
    height, width = kernel[1], kernel[2]
    (stride_x, stride_y), (gap_x, gap_y) = pair(layer, "stride"), pair(layer, "dilation")
    if layer.kind.startswith("transposed"):
        left, _, top, _ = transposed_pad(layer)
        down = row[:, None] - ((height - 1) * gap_y - top) + np.arange(height) * gap_y
        across = column[:, None] - ((width - 1) * gap_x - left) + np.arange(width) * gap_x
        usable = (down % stride_y == 0)[:, :, None] & (across % stride_x == 0)[:, None, :]
        down, across = down // stride_y, across // stride_x
    else:
        left, _, top, _ = explicit_pad(layer, (batch, *source.shape[1:]))
        down = row[:, None] * stride_y - top + np.arange(height) * gap_y
        across = column[:, None] * stride_x - left + np.arange(width) * gap_x
        usable = np.ones((len(places), height, width), bool)
    usable &= ((down >= 0) & (down < source.shape[1]))[:, :, None]
    usable &= ((across >= 0) & (across < source.shape[2]))[:, None, :]
    down, across = down.clip(0, source.shape[1] - 1), across.clip(0, source.shape[2] - 1)
    pixels = (sample[:, None, None] * source.shape[1] + down[:, :, None]) * source.shape[2]
    pixels = pixels + across[:, None, :]
    depth = source.shape[3]
    apart = form.groups > 1 and not _is_depthwise(layer)
    found = (np.empty((*pixels.shape, depth), source.dtype) if apart
             else out.reshape(*pixels.shape, depth))  # fmt: skip
    np.take(source.reshape(-1, depth), pixels, axis=0, out=found, mode="clip")
    if not usable.all():
        found[~usable] = 0
    if apart:
        split = found.reshape(len(places), height * width, form.groups, kernel[3])
        out[:] = split.transpose(0, 1, 3, 2).reshape(len(places), form.terms, form.groups)
    return out


def _is_depthwise(layer: Node) -> bool:
    return "depthwise" in layer.kind
