# SPDX-License-Identifier: Apache-2.0
"""Sliding windows over NHWC arrays: the part that all convolutions and pools share."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from opendpu_arch.errors import GraphError

Array = npt.NDArray[Any]

CHUNK_BYTES = 1 << 26
"""Size that the unfolded input of a convolution may have; batches are cut accordingly."""


def padded(x: Array, attrs: Mapping[str, Any], fill: float) -> tuple[Array, tuple[int, int]]:
    """Return ``x`` with the padding of a window op around it, and the op's output size.

    ``attrs`` are those of a XIR op; ``pad_mode`` FLOOR and VALID round the size down, CEIL up,
    and SAME divides the input by the stride and pads what that needs, more of it behind.
    """
    mode = str(attrs.get("pad_mode", "FLOOR")).upper()
    pad = list(attrs.get("pad", [0, 0, 0, 0]))
    pairs = [pad[2:4], pad[0:2]]
    sizes = []
    for axis in (0, 1):
        extent, stride = _extent(attrs, axis), int(attrs["stride"][1 - axis])
        size = x.shape[1 + axis]
        total = size + sum(pairs[axis])
        if mode == "SAME":
            count = -(-total // stride)
            missing = max(0, (count - 1) * stride + extent - total)
            pairs[axis] = [pairs[axis][0] + missing // 2, pairs[axis][1] + missing - missing // 2]
        elif mode == "CEIL":
            count = -(-(total - extent) // stride) + 1
            missing = max(0, (count - 1) * stride + extent - total)
            pairs[axis] = [pairs[axis][0], pairs[axis][1] + missing]
        else:
            count = (total - extent) // stride + 1
        sizes.append(count)
    if min(sizes) < 1:
        raise GraphError(f"window {attrs['kernel']} does not fit the input {list(x.shape)}")
    frame = [(0, 0), (pairs[0][0], pairs[0][1]), (pairs[1][0], pairs[1][1]), (0, 0)]
    return np.pad(x, frame, constant_values=fill), (sizes[0], sizes[1])


def _extent(attrs: Mapping[str, Any], axis: int) -> int:
    kernel = int(attrs["kernel"][1 - axis])
    dilation = int(attrs.get("dilation", [1, 1])[1 - axis])
    return dilation * (kernel - 1) + 1


def taps(
    x: Array, attrs: Mapping[str, Any], size: tuple[int, int]
) -> Iterator[tuple[int, int, Array]]:
    """Yield row and column of each kernel element with the inputs it meets, NHWC."""
    width, height = attrs["kernel"]
    step_w, step_h = attrs["stride"]
    gap_w, gap_h = attrs.get("dilation", [1, 1])
    for row in range(height):
        for column in range(width):
            top, left = row * gap_h, column * gap_w
            yield (
                row,
                column,
                x[
                    :,
                    top : top + (size[0] - 1) * step_h + 1 : step_h,
                    left : left + (size[1] - 1) * step_w + 1 : step_w,
                ],
            )


def convolve(x: Array, weights: Array, attrs: Mapping[str, Any]) -> Array:
    """Return the sums of a convolution without bias; ``weights`` are OHWI, ``x`` NHWC.

    Sums are made in the type of ``x``: with float64 they are exact for 8-bit operands.
    """
    frame, size = padded(x, attrs, 0)
    matrix = weights.reshape(weights.shape[0], -1).astype(x.dtype).T
    step = max(1, CHUNK_BYTES // (size[0] * size[1] * matrix.shape[0] * x.itemsize))
    result = np.empty((x.shape[0], *size, matrix.shape[1]), x.dtype)
    for start in range(0, x.shape[0], step):
        part = frame[start : start + step]
        views = [view for _, _, view in taps(part, attrs, size)]
        columns = views[0] if len(views) == 1 else np.concatenate(views, axis=-1)
        rows = columns.reshape(-1, matrix.shape[0])  # one large product, not one a row of pixels
        result[start : start + step] = (rows @ matrix).reshape(-1, *result.shape[1:])
    return result


def by_group(
    convolution: Callable[[Array, Array, Mapping[str, Any]], Array],
    x: Array,
    weights: Array,
    attrs: Mapping[str, Any],
) -> Array:
    """Return a convolution whose ``group`` parts have channels of their own; one if not given."""
    group = int(attrs.get("group", 1))
    parts = zip(np.split(x, group, axis=-1), np.split(weights, group), strict=True)
    return np.concatenate([convolution(part, taps, attrs) for part, taps in parts], axis=-1)


def convolve_depthwise(x: Array, weights: Array, attrs: Mapping[str, Any]) -> Array:
    """Return the sums of a depthwise convolution without bias; ``weights`` are 1HWC."""
    frame, size = padded(x, attrs, 0)
    total = np.zeros((x.shape[0], *size, x.shape[3]), x.dtype)
    for row, column, view in taps(frame, attrs, size):
        total += view * weights[0, row, column].astype(x.dtype)
    return total


def convolve_transposed(
    x: Array, weights: Array, attrs: Mapping[str, Any], *, depthwise: bool = False
) -> Array:
    """Return the sums of a transposed convolution; ``weights`` are rotated by 180 degrees.

    They are OHWI, or 1HWC if ``depthwise``.

    The input is spread out by the stride, framed by ``kernel - 1 - pad`` zeros (dilation counted),
    and convolved.
    """
    step_w, step_h = attrs["stride"]
    reach_w, reach_h = (_extent(attrs, axis) - 1 for axis in (1, 0))
    left, right, top, bottom = _cut_off(attrs)
    batch, height, width, channels = x.shape
    spread = np.zeros(
        (batch, (height - 1) * step_h + 1, (width - 1) * step_w + 1, channels), x.dtype
    )
    spread[:, ::step_h, ::step_w] = x
    frame = [reach_w - left, reach_w - right, reach_h - top, reach_h - bottom]
    crop = [max(0, -n) for n in frame]
    spread = spread[:, crop[2] : spread.shape[1] - crop[3], crop[0] : spread.shape[2] - crop[1]]
    inner = {**attrs, "stride": [1, 1], "pad": [max(0, n) for n in frame], "pad_mode": "FLOOR"}
    if depthwise:
        return convolve_depthwise(spread, weights, inner)
    return convolve(spread, weights, inner)


def _cut_off(attrs: Mapping[str, Any]) -> list[int]:
    """Return how many results of a transposed convolution are left out at each side."""
    mode = str(attrs.get("pad_mode", "FLOOR")).upper()
    if mode == "SAME":
        totals = [k - s for k, s in zip(attrs["kernel"], attrs["stride"], strict=True)]
        return [n for total in totals for n in (total // 2, total - total // 2)]
    return [0, 0, 0, 0] if mode == "VALID" else list(attrs.get("pad", [0, 0, 0, 0]))


def pool_max(x: Array, attrs: Mapping[str, Any], lowest: float) -> Array:
    """Return the maximum of each window; padding counts as ``lowest``."""
    frame, size = padded(x, attrs, lowest)
    result: Array | None = None
    for _, _, view in taps(frame, attrs, size):
        result = view if result is None else np.maximum(result, view)
    assert result is not None
    return result


def pool_sum(x: Array, attrs: Mapping[str, Any]) -> Array:
    """Return the sum of each window; padding counts as zero."""
    frame, size = padded(x, attrs, 0)
    total = np.zeros((x.shape[0], *size, x.shape[3]), x.dtype)
    for _, _, view in taps(frame, attrs, size):
        total += view
    return total
