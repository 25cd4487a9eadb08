# SPDX-License-Identifier: Apache-2.0
"""Convolutions and their windows; weights in any order of axes."""

from collections.abc import Sequence

from opendpu.frontend.building import Builder
from opendpu.frontend.channels_last.axes import (
    channels_first,
    channels_last,
    known_shape,
    ordered,
    reshaped,
    volume,
)
from opendpu.frontend.refusal import Refusal

Pads = tuple[tuple[int, int], ...]
"""Elements before and after, of each axis: height and width, and depth in front of them."""
Padding = str | Pads
"""``SAME``, ``VALID``, or explicit."""


def pads_of(
    padding: Padding, size: Sequence[int], kernel: Sequence[int], stride: Sequence[int],
    dilation: Sequence[int] = (),
) -> Pads:  # fmt: skip
    """Return explicit pads; ``SAME`` makes ``ceil(size / stride)``, the odd element behind.

    Raises
    ------
    Refusal
        The padding is none that TensorFlow has.
    """
    if not isinstance(padding, str):
        return padding
    if padding == "VALID":
        return ((0, 0),) * len(kernel)
    if padding != "SAME":
        raise Refusal(f"padding is {padding!r}, but must be SAME, VALID or EXPLICIT")
    pairs = []
    steps = dilation or (1,) * len(kernel)
    for n, k, s, d in zip(size, kernel, stride, steps, strict=True):
        total = max(0, (-(-n // s) - 1) * s + d * (k - 1) + 1 - n)
        pairs.append((total // 2, total - total // 2))
    return tuple(pairs)


def conv(
    b: Builder, x: str, weights: str, *, name: str, bias: str | None = None,
    padding: Padding = "VALID", stride: Sequence[int] = (1, 1), dilation: Sequence[int] = (1, 1),
) -> str:  # fmt: skip
    """Convolve; ``weights`` are OIHW, with fewer input channels than ``x`` has for groups.

    With a depth, ``x`` is NDHWC, and weights are OIDHW; so in all functions here.
    """
    _, per_group, *kernel = known_shape(b, weights)
    _, *size, channels = volume(b, x, len(kernel))
    if channels % per_group:
        raise Refusal(f"{channels} input channels are no multiple of the weights' {per_group}")
    pads = pads_of(padding, size, kernel, stride, dilation)
    made = b.node(
        "Conv", [channels_first(b, x), weights, *([bias] if bias else [])], name,
        kernel_shape=kernel, strides=list(stride), dilations=list(dilation),
        pads=_flat(pads), group=channels // per_group,
    )  # fmt: skip
    return channels_last(b, made)


def depthwise_weights(b: Builder, weights: str) -> str:
    """Return depthwise weights HWCM (of TensorFlow) as ONNX's, ``[C * M, 1, H, W]``."""
    height, width, channels, factor = known_shape(b, weights)
    flat = reshaped(b, weights, (height, width, 1, channels * factor))
    return ordered(b, flat, (3, 2, 0, 1))


def transposed_conv(
    b: Builder, x: str, weights: str, *, name: str, size: Sequence[int], bias: str | None = None,
    padding: Padding = "VALID", stride: Sequence[int] = (1, 1), dilation: Sequence[int] = (1, 1),
) -> str:  # fmt: skip
    """Convolve transposed to a result of ``size`` (height, width); ``weights`` are IOHW."""
    kernel = known_shape(b, weights)[2:]
    _, *given, _ = volume(b, x, len(kernel))
    extra, pads = [], []
    forward = pads_of(padding, size, kernel, stride, dilation)
    for axis, n in enumerate(given):
        full = (n - 1) * stride[axis] + dilation[axis] * (kernel[axis] - 1) + 1
        before = forward[axis][0]
        after = full - before - size[axis]
        extra.append(max(0, -after))
        pads.append((before, max(0, after)))
    made = b.node(
        "ConvTranspose", [channels_first(b, x), weights, *([bias] if bias else [])], name,
        kernel_shape=list(kernel), strides=list(stride), dilations=list(dilation),
        pads=_flat(tuple(pads)), output_padding=extra,
    )  # fmt: skip
    return channels_last(b, made)


def pool(
    b: Builder, kind: str, x: str, *, name: str, kernel: Sequence[int], stride: Sequence[int],
    padding: Padding,
) -> str:  # fmt: skip
    """Pool with ``MaxPool`` or ``AveragePool``, which does not count padding."""
    _, *size, _ = volume(b, x, len(kernel))
    pads = pads_of(padding, size, kernel, stride)
    made = b.node(
        kind, [channels_first(b, x)], name, kernel_shape=list(kernel), strides=list(stride),
        pads=_flat(pads),
    )  # fmt: skip
    return channels_last(b, made)


def _flat(pads: Pads) -> list[int]:
    return [pair[side] for side in (0, 1) for pair in pads]
