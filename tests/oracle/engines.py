# SPDX-License-Identifier: Apache-2.0
"""Integer arithmetic of the DPU's engines on whole tensors, written for this reference alone.

Tensors are int64 and NHWC. Positions are numbers of fractional bits. Results are saturated to
8 bits after exactly one rounding, halves up, unless said otherwise. Everything between is exact:
a value ``v / 2**n`` is carried as the integer ``v`` and the shift ``n``.
"""

import dataclasses
import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from opendpu.ir import Node
from opendpu_arch.errors import GraphError
from oracle import windows

Array = npt.NDArray[Any]
Activation = Callable[[Array, int], tuple[Array, int]]
"""From numerators and a shift to numerators and a shift."""

LAYERS = (
    "conv2d", "transposed-conv2d", "inner-product", "depthwise-conv2d",
    "transposed-depthwise-conv2d", "matmul",
)  # fmt: skip
"""Ops with weights; those of ``matmul`` are its right side."""

FUSING = {"relu": (*LAYERS, "add", "mul"), "relu6": LAYERS, "leaky-relu": LAYERS}
"""Ops whose engine applies the activation itself, by activation."""

LEAKY_SLOPE = 26
"""Slope of LeakyReLU for negative values, in 1/256."""


def saturate(values: Array) -> Array:
    """Clip to -128..127, as int64."""
    return np.clip(values, -128, 127).astype(np.int64)


def round_shift(values: Array, shift: int) -> Array:
    """Return ``values / 2**shift``, halves rounded up, saturated; left shifts are negative.

    Values are below ``2**61``, so that nothing is left of them after 63 bits.
    """
    if shift <= 0:
        return saturate(np.clip(values, -(2**31), 2**31) << min(-shift, 30))
    if shift > 62:
        return np.zeros_like(values)
    return saturate((values + (1 << (shift - 1))) >> shift)


def move(values: Array, point: int, to: int) -> Array:
    """Return the same numbers with ``to`` instead of ``point`` fractional bits."""
    return round_shift(values, point - to)


def has_activation(kind: str, point: int, alpha: float | None = None) -> bool:
    """Return whether an engine has an activation for results at ``point``."""
    if kind == "relu6":
        return point >= 4
    return kind != "leaky-relu" or (alpha is not None and abs(alpha - LEAKY_SLOPE / 256) < 1e-6)


def activation(kind: str | None, point: int, alpha: float | None = None) -> Activation:
    """Return an engine's activation; ``point`` is the position of the result.

    The engine's ReLU6 clamps at 96, which is six at position 4; at five and more, saturation at
    127 comes before six and ReLU6 is a plain ReLU.
    """
    match kind:
        case None:
            return lambda v, shift: (v, shift)
        case "relu":
            return lambda v, shift: (np.maximum(v, 0), shift)
        case "relu6" if point > 4:
            return lambda v, shift: (np.maximum(v, 0), shift)
        case "relu6" if point == 4:
            return lambda v, shift: (np.clip(v, 0, _times_power(96, shift)), shift)
        case "leaky-relu" if has_activation(kind, point, alpha):
            return lambda v, shift: (np.where(v < 0, v * LEAKY_SLOPE, v * 256), shift + 8)
    slope = "" if alpha is None else f" with slope {alpha:g}"
    raise GraphError(
        f"the DPU has no activation {kind!r}{slope} for results at position {point}; it has "
        "relu, relu6 from position 4 on, and leaky-relu with slope 26/256"
    )


def _times_power(value: int, shift: int) -> int:
    return value << shift if shift >= 0 else value >> -shift


@dataclasses.dataclass(frozen=True)
class Shifts:
    """Fields of a convolution instruction: see :func:`layer_shifts`."""

    cut: int
    bias: int


def layer_shifts(name: str, x: int, weights: int, bias: int | None, out: int) -> Shifts:
    """Return ``shift_cut`` and ``shift_bias`` for the positions of a layer's tensors.

    Raises
    ------
    GraphError
        A shift does not fit its instruction field.
    """
    cut = weights + x - out
    shift_bias = 0 if bias is None else weights + x - bias + 1
    if not 0 <= cut <= 63:
        raise GraphError(f"layer {name!r} needs shift_cut {cut}, but it must be in 0..63")
    if not 0 <= shift_bias <= 20:
        raise GraphError(f"layer {name!r} needs shift_bias {shift_bias}, but it must be in 0..20")
    return Shifts(cut, shift_bias)


def sums(node: Node, x: Array, weights: Array) -> Array:
    """Return the products' sums of a layer. float64 holds them exactly: they are below 2**53."""
    exact, kernel = x.astype(np.float64), weights.astype(np.float64)
    match node.kind:
        case "conv2d":
            total = windows.by_group(windows.convolve, exact, kernel, node.attrs)
        case "depthwise-conv2d":
            total = windows.convolve_depthwise(exact, kernel, node.attrs)
        case "transposed-conv2d":
            total = windows.by_group(windows.convolve_transposed, exact, kernel, node.attrs)
        case "transposed-depthwise-conv2d":
            total = windows.convolve_transposed(exact, kernel, node.attrs, depthwise=True)
        case "matmul":
            total = exact @ (kernel.swapaxes(-1, -2) if node.attrs.get("transpose_b") else kernel)
        case _:
            axis = node.attrs["axis"] % exact.ndim
            rows = exact.reshape(*exact.shape[:axis], -1)
            total = rows @ kernel.reshape(kernel.shape[0], -1).T
    return total.astype(np.int64)


def layer(total: Array, bias: Array | None, shifts: Shifts, function: Activation) -> Array:
    """Return ``round(act((2*total + bias*2**shift_bias) / 2**(shift_cut + 1)))``."""
    doubled = 2 * total
    if bias is not None:
        doubled = doubled + (bias << shifts.bias)
    return round_shift(*function(doubled, shifts.cut + 1))


def layer_by_channel(
    name: str, total: Array, bias: Array | None, x: int, weights: Array, biases: Array | None,
    out: int, function: Activation,
) -> Array:  # fmt: skip
    """Return the result of a layer whose channels have positions of their own, one by one.

    ``weights`` and ``biases`` are positions, one for each channel of ``total``.
    """
    made = np.empty_like(total)
    for channel, point in enumerate(weights):
        own = None if biases is None else int(biases[channel])
        shifts = layer_shifts(name, x, int(point), own, out)
        added = None if bias is None else bias[channel]
        made[..., channel] = layer(total[..., channel], added, shifts, function)
    return made


def add(inputs: list[Array], points: list[int], out: int, function: Activation) -> Array:
    """Return the sum: two guard bits, each input cut down to the coarsest position first."""
    coarse = min(points)
    if max(points) - coarse > 15:
        raise GraphError(
            f"an addition has inputs at positions {points}, but they must be at most 15 apart"
        )
    total = sum((x << 2) >> (point - coarse) for x, point in zip(inputs, points, strict=True))
    if not -15 <= coarse - out <= 15:
        raise GraphError(
            f"an addition has position {coarse} before and {out} after, but they "
            "must be at most 15 apart"
        )
    return round_shift(*function(np.asarray(total), 2 + coarse - out))


def multiply(inputs: list[Array], points: list[int], out: int, function: Activation) -> Array:
    """Return the product of two tensors."""
    shift = sum(points) - out
    if not -15 <= shift <= 15:
        raise GraphError(
            f"a product of positions {points} with a result at {out} needs a shift "
            f"of {shift}, but it must be in -15..15"
        )
    return round_shift(*function(inputs[0] * inputs[1], shift))


def max_pool(node: Node, x: Array, point: int, out: int) -> Array:
    """Return the maximum of each window; padding is -128."""
    if node.kind == "reduction_max":
        axes = tuple(node.attrs["axis"])
        return move(x.max(axis=axes, keepdims=node.attrs["keep_dims"]), point, out)
    return move(windows.pool_max(x, _window(node, x), -128), point, out)


MOST_PARTS = 25
"""Parts of an average, each with windows of one size, that the DPU computes."""


def averages(node: Node, x: Array) -> bool:
    """Return whether the DPU can average this way.

    A mean over rows or columns is an average pool. Windows that do not count the padding have
    different sizes, each of which is a pool of its own.
    """
    if node.kind == "reduction_mean":
        return len(node.attrs["axis"]) > 0 and set(node.attrs["axis"]) <= {1, 2}
    if not _excludes(node):
        return True
    widths, heights = _sizes(node, x)
    return _parts(node, widths, 0) * _parts(node, heights, 1) <= MOST_PARTS


def _excludes(node: Node) -> bool:
    padded = any(node.attrs.get("pad", [0])) or node.attrs.get("pad_mode") in ("SAME", "CEIL")
    return padded and not node.attrs.get("count_include_pad", True)


def _sizes(node: Node, x: Array) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Return where each window starts and how far it goes, without padding: columns, rows."""
    place = np.zeros((1, *x.shape[1:3], 2), np.int64)
    place[0, ..., 0], place[0, ..., 1] = np.indices(x.shape[1:3]) + 1
    first = windows.pool_max(-place, node.attrs, -(1 << 40))[0]
    last = windows.pool_max(place, node.attrs, 0)[0]
    starts, sizes = -first, last + first + 1
    rows = list(zip(starts[:, 0, 0].tolist(), sizes[:, 0, 0].tolist(), strict=True))
    columns = list(zip(starts[0, :, 1].tolist(), sizes[0, :, 1].tolist(), strict=True))
    return columns, rows


def _parts(node: Node, found: list[tuple[int, int]], axis: int) -> int:
    """Return how many runs of windows have one size and start a stride apart."""
    stride = int(node.attrs["stride"][axis])
    return 1 + sum(
        after[1] != before[1] or after[0] != before[0] + stride
        for before, after in itertools.pairwise(found)
    )


def average_factor(width: int, height: int) -> tuple[int, int]:
    """Return factor and right shift that stand for division by the size of a window.

    Usual square kernels have fixed factors; for others it is the pair with the smallest error,
    the smallest shift of several, and with a factor that fits 7 bits.
    """
    known = {3: (7, 6), 5: (10, 8), 6: (7, 8), 7: (21, 10), 14: (21, 12)}
    if width == height and width in known:
        return known[width]
    size = width * height
    best = (1, 0)
    for shift in range(math.ceil(math.log2(size * 128))):
        factor = (2 * (1 << shift) + size) // (2 * size)
        if 0 < factor <= 127 and abs(factor / (1 << shift) - 1 / size) < abs(
            best[0] / (1 << best[1]) - 1 / size
        ):
            best = (factor, shift)
    return best


def average_pool(node: Node, x: Array, point: int, out: int) -> Array:
    """Return the average of each window, by factor and shift."""
    attrs = _mean_window(node, x) if node.kind == "reduction_mean" else _window(node, x)
    total = windows.pool_sum(x, attrs)
    if node.kind != "reduction_mean" and _excludes(node):
        average = np.empty_like(total)
        columns, rows = _sizes(node, x)
        for row, (_, height) in enumerate(rows):
            for column, (_, width) in enumerate(columns):
                factor, shift = average_factor(width, height)
                part = total[:, row, column] * factor
                average[:, row, column] = round_shift(part, shift + point - out)
        return average
    factor, shift = average_factor(*attrs["kernel"])
    average = round_shift(total * factor, shift + point - out)
    if node.kind == "reduction_mean" and not node.attrs["keep_dims"]:
        return np.squeeze(average, tuple(node.attrs["axis"]))
    return average


def _mean_window(node: Node, x: Array) -> dict[str, Any]:
    size = [x.shape[a] if a in node.attrs["axis"] else 1 for a in (2, 1)]
    return {"kernel": size, "stride": size, "pad_mode": "FLOOR"}


def _window(node: Node, x: Array) -> dict[str, Any]:
    if not node.attrs.get("global"):
        return node.attrs
    size = [x.shape[2], x.shape[1]]
    return {"kernel": size, "stride": size, "pad_mode": "FLOOR"}


def alone(node: Node, x: Array, point: int, out: int) -> Array:
    """Return ``relu`` or ``leaky-relu`` that stands between two ``fix`` ops."""
    function = activation(node.kind, out, node.attrs.get("alpha"))
    return round_shift(*function(x, point - out))


def prelu(x: Array, slope: Array, point: int, slope_point: int, out: int) -> Array:
    """Return PReLU with an 8-bit slope for each channel."""
    negative = round_shift(x * slope, point + slope_point - out)
    return np.where(x < 0, negative, round_shift(x, point - out))


def hard_sigmoid(x: Array, point: int, out: int) -> Array:
    """Return ``min(6, max(0, x + 3)) * 2731 / 2**14``, rounded; 2731 stands for 2**14 / 6."""
    if point < 0:
        x, point = x << -point, 0
    linear = np.clip(x + (3 << point), 0, 6 << point) * 2731
    return round_shift(linear, 14 + point - out)
