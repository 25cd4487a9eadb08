# SPDX-License-Identifier: Apache-2.0
"""Convolutions and pooling in two dimensions, float, NHWC."""

import dataclasses
from collections.abc import Sequence

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from opendpu.runtime.cpu.registry import Array
from xir import Op

Pair = tuple[int, int]
"""Height first, then width."""


@dataclasses.dataclass(frozen=True)
class Geometry:
    """How a kernel walks over an input; every pair is height, width."""

    kernel: Pair
    stride: Pair
    dilation: Pair
    result: Pair
    pads: tuple[Pair, Pair]
    """Padding before and after that the op asks for."""
    beyond: Pair
    """Padding after those that the last window needs (``CEIL``)."""

    @classmethod
    def of(cls, op: Op, x: Array, kernel: Pair) -> "Geometry":
        """Return the geometry of a convolution or pooling op."""
        stride, dilation = _pair(op, "stride"), _pair(op, "dilation")
        dims = op.get_output_tensor().dims
        left, right, top, bottom = op.get_attr("pad") if op.has_attr("pad") else [0] * 4
        pads, beyond = [], []
        for axis, (before, after) in enumerate(((top, bottom), (left, right))):
            reach = (dims[1 + axis] - 1) * stride[axis] + dilation[axis] * (kernel[axis] - 1) + 1
            missing = max(reach - x.shape[1 + axis] - before - after, 0)
            if op.has_attr("pad_mode") and op.get_attr("pad_mode").upper() == "SAME":
                before, after = before + missing // 2, after + missing - missing // 2
                missing = 0
            pads.append((before, after))
            beyond.append(missing)
        return cls(
            kernel,
            stride,
            dilation,
            (dims[1], dims[2]),
            (pads[0], pads[1]),
            (beyond[0], beyond[1]),
        )

    def pad(self, x: Array, value: float = 0) -> Array:
        """Surround ``x`` with all its padding."""
        widths = [
            (before, after + more)
            for (before, after), more in zip(self.pads, self.beyond, strict=True)
        ]
        return np.pad(x, [(0, 0), *widths, (0, 0)], constant_values=value)

    def windows(self, padded: Array) -> Array:
        """Return [n, oh, ow, c, kh, kw] over a padded input."""
        (sh, sw), (dh, dw) = self.stride, self.dilation
        extent = (dh * (self.kernel[0] - 1) + 1, dw * (self.kernel[1] - 1) + 1)
        view = sliding_window_view(padded, extent, axis=(1, 2))
        strided = view[:, ::sh, ::sw, :, ::dh, ::dw]
        return strided[:, : self.result[0], : self.result[1]]


def _pair(op: Op, name: str) -> Pair:
    """Return a [w, h] attribute as (h, w); 1 where there is none."""
    value = op.get_attr(name) if op.has_attr(name) else [1, 1]
    return value[1], value[0]


def _correlate(op: Op, windows: Array, inputs: Sequence[Array]) -> Array:
    """Multiply windows with the weights, by group or by channel, and add the bias."""
    weights = inputs[1]
    if "depthwise" in op.get_type():
        result = np.einsum("nhwcij,mijc->nhwmc", windows, weights)
        result = result.reshape(op.get_output_tensor().dims)
    else:
        groups = op.get_attr("group") if op.has_attr("group") else 1
        pairs = zip(
            np.split(windows, groups, axis=3), np.split(weights, groups, axis=0), strict=True
        )
        parts = [np.tensordot(part, own, axes=([4, 5, 3], [1, 2, 3])) for part, own in pairs]
        result = np.concatenate(parts, axis=-1)
    return np.asarray(result + inputs[2] if len(inputs) > 2 else result)


def conv2d(op: Op, inputs: Sequence[Array]) -> Array:
    """Convolve; weights are [output channels, kh, kw, input channels]."""
    geometry = Geometry.of(op, inputs[0], (inputs[1].shape[1], inputs[1].shape[2]))
    return _correlate(op, geometry.windows(geometry.pad(inputs[0])), inputs)


def transposed_conv2d(op: Op, inputs: Sequence[Array]) -> Array:
    """Spread the input by ``stride``, pad by ``kernel - 1 - pad``, then convolve."""
    x, stride, dilation = inputs[0], _pair(op, "stride"), _pair(op, "dilation")
    kernel = (inputs[1].shape[1], inputs[1].shape[2])
    left, _right, top, _bottom = op.get_attr("pad")
    mode = op.get_attr("pad_mode").upper() if op.has_attr("pad_mode") else "FLOOR"
    spatial = [(size - 1) * step + 1 for size, step in zip(x.shape[1:3], stride, strict=True)]
    spread = np.zeros((x.shape[0], *spatial, x.shape[3]), x.dtype)
    spread[:, :: stride[0], :: stride[1]] = x
    dims = op.get_output_tensor().dims
    for axis, given in ((1, top), (2, left)):
        reach = dilation[axis - 1] * (kernel[axis - 1] - 1)
        size = spread.shape[axis]
        cut = max(reach + size - dims[axis], 0) // 2
        before = reach - {"SAME": cut, "VALID": 0}.get(mode, given)
        after = dims[axis] + reach - size - before
        widths = [(0, 0)] * 4
        widths[axis] = (max(before, 0), max(after, 0))
        keep = slice(max(-before, 0), size + min(after, 0))
        spread = np.pad(spread[(slice(None),) * axis + (keep,)], widths)
    geometry = Geometry(kernel, (1, 1), dilation, (dims[1], dims[2]), ((0, 0), (0, 0)), (0, 0))
    return _correlate(op, geometry.windows(spread), inputs)


def _pooling(op: Op, x: Array) -> Geometry:
    whole = op.has_attr("global") and op.get_attr("global")
    return Geometry.of(op, x, (x.shape[1], x.shape[2]) if whole else _pair(op, "kernel"))


def maxpool2d(op: Op, inputs: Sequence[Array]) -> Array:
    """Return the largest element of each window."""
    geometry = _pooling(op, inputs[0])
    return np.asarray(geometry.windows(geometry.pad(inputs[0], -np.inf)).max(axis=(4, 5)))


def window_sums(op: Op, x: Array) -> Array:
    """Return the sum of each window; padding counts as zero."""
    geometry = _pooling(op, x)
    return np.asarray(geometry.windows(geometry.pad(x)).sum(axis=(4, 5)))
