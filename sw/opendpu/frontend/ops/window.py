# SPDX-License-Identifier: Apache-2.0
"""Kernel, stride, dilation and padding of ONNX windows, as XIR wants them."""

import dataclasses
from typing import Any

from opendpu.frontend.context import Call
from opendpu.frontend.refusal import FaultError, Refusal


@dataclasses.dataclass(frozen=True)
class Window:
    """A two-dimensional window; every pair is (height, width), pads are (before, after)."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    pads: tuple[tuple[int, int], tuple[int, int]]

    def extent(self, axis: int) -> int:
        """Return how many input elements the window spans."""
        return self.dilation[axis] * (self.kernel[axis] - 1) + 1

    def output(self, size: tuple[int, int]) -> tuple[int, int]:
        """Return the spatial size of the result; FaultError if it is empty."""
        result = [
            (size[axis] + sum(self.pads[axis]) - self.extent(axis)) // self.stride[axis] + 1
            for axis in (0, 1)
        ]
        if min(result) < 1:
            raise FaultError(f"window {list(self.kernel)} does not fit the input {list(size)}")
        return result[0], result[1]

    def attrs(self) -> dict[str, Any]:
        """Return the XIR attributes: kernel, stride, pad, pad_mode."""
        (top, bottom), (left, right) = self.pads
        return {
            "kernel": [self.kernel[1], self.kernel[0]],
            "stride": [self.stride[1], self.stride[0]],
            "pad": [left, right, top, bottom],
            "pad_mode": "FLOOR",
        }


def window_of(call: Call, kernel: tuple[int, ...], size: tuple[int, int]) -> Window:
    """Return the window of a convolution or pooling node, 1-D ones with height 1.

    ``auto_pad`` and ``ceil_mode`` become explicit pads, so that rounding down gives the right
    size.
    """
    rank = len(kernel)
    if rank not in (1, 2):
        raise Refusal(f"kernel {list(kernel)} has {rank} dimensions, but 1 and 2 are supported")
    pads = list(call.attrs.get("pads", [0] * 2 * rank))
    strides = list(call.attrs.get("strides", [1] * rank))
    dilations = list(call.attrs.get("dilations", [1] * rank))
    lead = [1] * (2 - rank)
    pairs = [(0, 0)] * (2 - rank) + list(zip(pads[:rank], pads[rank:], strict=True))
    window = Window(
        _pair([*lead, *kernel]),
        _pair([*lead, *strides]),
        _pair([*lead, *dilations]),
        (pairs[0], pairs[1]),
    )
    auto = call.attrs.get("auto_pad", "NOTSET")
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        return dataclasses.replace(window, pads=_same(window, size, upper=auto == "SAME_UPPER"))
    if auto == "VALID":
        return dataclasses.replace(window, pads=((0, 0), (0, 0)))
    if auto != "NOTSET":
        raise Refusal(f"auto_pad is {auto!r}, which ONNX does not define")
    if min(pads) < 0:
        raise Refusal(f"pads are {pads}, but must not be negative")
    return window


def transposed_window(call: Call, kernel: tuple[int, ...], size: tuple[int, int]) -> Window:
    """Return the window of a transposed convolution; ``size`` is that of its input.

    ``auto_pad``, ``output_shape`` and ``output_padding`` become explicit pads of the result,
    negative ones where it is longer than the kernel reaches.
    """
    rank = len(kernel)
    lead = [0] * (2 - rank)
    auto = call.attrs.get("auto_pad", "NOTSET")
    extra = [*lead, *call.attrs.get("output_padding", [0] * rank)]
    window = window_of(dataclasses.replace(call, attrs=call.attrs | {"auto_pad": "NOTSET"}), kernel,
                       size)  # fmt: skip
    wanted = call.attrs.get("output_shape")
    pads = []
    for axis in (0, 1):
        full = (size[axis] - 1) * window.stride[axis] + window.extent(axis) + extra[axis]
        before, after = window.pads[axis]
        if wanted is not None or auto in ("SAME_UPPER", "SAME_LOWER"):
            target = size[axis] * window.stride[axis]
            if wanted is not None:
                target = [*[1] * (2 - rank), *wanted][axis]
            total = full - target
            before = total // 2 if auto == "SAME_UPPER" else total - total // 2
            after = total - before
        pads.append((before, after - extra[axis]))
    return dataclasses.replace(window, pads=(pads[0], pads[1]))


def _same(
    window: Window, size: tuple[int, int], *, upper: bool
) -> tuple[tuple[int, int], tuple[int, int]]:
    pads = []
    for axis in (0, 1):
        result = -(-size[axis] // window.stride[axis])
        total = max(0, (result - 1) * window.stride[axis] + window.extent(axis) - size[axis])
        small = total // 2
        pads.append((small, total - small) if upper else (total - small, small))
    return pads[0], pads[1]


def with_ceil_mode(window: Window, size: tuple[int, int]) -> Window:
    """Return the window with pads enlarged so that rounding down gives ONNX's ``ceil_mode``."""
    pads = []
    for axis in (0, 1):
        before, after = window.pads[axis]
        room = size[axis] + before + after - window.extent(axis)
        steps = -(-room // window.stride[axis])
        if steps * window.stride[axis] >= size[axis] + before:
            steps -= 1
        pads.append((before, after + max(0, steps * window.stride[axis] - room)))
    return dataclasses.replace(window, pads=(pads[0], pads[1]))


def _pair(values: list[int]) -> tuple[int, int]:
    if len(values) != 2 or min(values) < 1:
        raise Refusal(f"kernel, strides and dilations must be positive, found {values}")
    return values[0], values[1]
