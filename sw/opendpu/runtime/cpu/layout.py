# SPDX-License-Identifier: Apache-2.0
"""Ops that hold, move, cut, join or resize data."""

from collections.abc import Sequence

import numpy as np

from opendpu.runtime.cpu.registry import Array, register
from opendpu_arch.errors import GraphError, UnsupportedError
from xir import Op


@register("placeholder", "upload", "download")
def identity(_op: Op, inputs: Sequence[Array]) -> Array:
    """Return the input."""
    return inputs[0]


@register("reshape-fix")
def reshape(op: Op, inputs: Sequence[Array]) -> Array:
    """Give the same elements other dimensions."""
    return inputs[0].reshape(op.get_output_tensor().dims)


@register("shape")
def shape(_op: Op, inputs: Sequence[Array]) -> Array:
    """Return the dimensions."""
    return np.array(inputs[0].shape, np.int32)


def concat(op: Op, inputs: Sequence[Array]) -> Array:
    """Join along an axis."""
    return np.concatenate(inputs, axis=op.get_attr("axis"))


def strided_slice(op: Op, inputs: Sequence[Array]) -> Array:
    """Cut out a part."""
    limits = zip(*(op.get_attr(name) for name in ("begin", "end", "strides")), strict=True)
    return inputs[0][tuple(slice(*limit) for limit in limits)]


def pad(op: Op, inputs: Sequence[Array]) -> Array:
    """Surround with a constant or with mirrored elements."""
    flat = op.get_attr("paddings")
    widths = list(zip(flat[::2], flat[1::2], strict=True))
    mode = op.get_attr("mode").upper()
    if mode in ("REFLECT", "SYMMETRIC"):
        return np.pad(inputs[0], widths, mode="reflect" if mode == "REFLECT" else "symmetric")
    if mode != "CONSTANT":
        raise UnsupportedError(
            f"op {op.get_name()!r}: mode is {mode!r}, but must be CONSTANT, REFLECT or SYMMETRIC"
        )
    values = op.get_attr("constant_values")
    value = values[0] if values else 0
    return np.pad(inputs[0], widths, constant_values=value)


@register("tile-fix")
def tile(op: Op, inputs: Sequence[Array]) -> Array:
    """Trade blocks of ``stride`` x ``stride`` pixels for channels, or back (``reverse``)."""
    x, size, dims = inputs[0], op.get_attr("stride"), op.get_output_tensor().dims
    n, h, w, c = x.shape
    if op.get_attr("reverse"):
        split = x.reshape(n, h, w, size, size, c // size**2)
    else:
        split = x.reshape(n, h // size, size, w // size, size, c)
    return split.transpose(0, 1, 3, 2, 4, 5).reshape(dims)


@register("reorg-fix")
def reorg(op: Op, inputs: Sequence[Array]) -> Array:
    """As ``tile``, with the rows of a block ``scale`` apart in groups of ``scale**2`` rows."""
    x, size, dims = inputs[0], op.get_attr("scale"), op.get_output_tensor().dims
    n, h, w, c = x.shape
    rows = h * size if op.get_attr("reverse") else h
    if rows % size**2:
        raise GraphError(f"op {op.get_name()!r}: {rows} rows are no multiple of {size**2}")
    if op.get_attr("reverse"):
        split = x.reshape(n, h // size, size, w, size, size, c // size**2)
        return split.transpose(0, 1, 4, 2, 3, 5, 6).reshape(dims)
    split = x.reshape(n, h // size**2, size, size, w // size, size, c)
    return split.transpose(0, 1, 3, 4, 2, 5, 6).reshape(dims)


ROUNDED = 1e-5
"""What a coordinate may lack because scales such as 1/3 are rounded."""


def _sources(op: Op, axis: int, size: int, result: int) -> Array:
    """Return where in the input each output position lies, as a float coordinate."""
    index = np.arange(result, dtype=np.float64)
    if op.get_attr("align_corners") and result > 1:
        return index * (size - 1) / (result - 1)
    scale = op.get_attr("scale")[2 - axis]
    if op.get_attr("half_pixel_centers"):
        return np.asarray((index + 0.5) / scale - 0.5)
    return np.asarray(index / scale)


def resize(op: Op, inputs: Sequence[Array]) -> Array:
    """Scale height and width, NEAREST or BILINEAR."""
    x, dims = inputs[0], op.get_output_tensor().dims
    mode = op.get_attr("mode").upper()
    if mode not in ("NEAREST", "BILINEAR") or x.ndim != 4:
        raise UnsupportedError(
            f"op {op.get_name()!r}: mode is {mode!r} for {x.ndim} dimensions, "
            "but must be NEAREST or BILINEAR for 4"
        )
    for axis in (1, 2):
        size = x.shape[axis]
        source = _sources(op, axis, size, dims[axis])
        if mode == "NEAREST":
            near = np.floor(source + (0.5 if op.get_attr("align_corners") else ROUNDED))
            x = x.take(np.clip(near, 0, size - 1).astype(int), axis=axis)
            continue
        source = np.clip(source, 0, size - 1)
        low = np.floor(source).astype(int)
        high = np.minimum(low + 1, size - 1)
        weight = (source - low).reshape([-1 if i == axis else 1 for i in range(4)])
        x = x.take(low, axis=axis) * (1 - weight) + x.take(high, axis=axis) * weight
    return x
