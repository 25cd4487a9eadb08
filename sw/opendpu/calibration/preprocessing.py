# SPDX-License-Identifier: Apache-2.0
"""What a network's authors did to images before they trained it, as a line of options says it."""

import dataclasses
import enum
import re
from collections.abc import Sequence

from opendpu_arch.errors import UnsupportedError

Size = tuple[int, int]
"""Height and width."""


class Layout(enum.StrEnum):
    """Order of the axes of the network's input."""

    AUTO = "auto"
    """As the input's shape says it: the axis of 1 or 3 has the channels."""
    NCHW = "nchw"
    NHWC = "nhwc"


class Channels(enum.StrEnum):
    """What the channels of a pixel are; by default ``gray`` for one and ``rgb`` for three."""

    AUTO = "auto"
    RGB = "rgb"
    BGR = "bgr"
    GRAY = "gray"


@dataclasses.dataclass(frozen=True)
class Preprocessing:
    """From an image file to an input: resize, crop the middle, ``(pixel - mean) * scale``.

    Parameters
    ----------
    mean, scale
        One for all channels or one for each, in the order that the network has them; pixels are
        0 to 255.
    resize
        Height and width, or one number: that of the shorter side, the other one in proportion.
        By default what the network takes.
    crop
        Height and width of the part in the middle that is taken; by default what the network takes.
    layout, channels
        Of the network's input.
    """

    mean: tuple[float, ...] = (0.0,)
    scale: tuple[float, ...] = (1.0,)
    resize: int | Size | None = None
    crop: Size | None = None
    layout: Layout = Layout.AUTO
    channels: Channels = Channels.AUTO

    @classmethod
    def parse(
        cls,
        *,
        mean: str | None = None,
        scale: str | None = None,
        resize: str | None = None,
        crop: str | None = None,
        layout: Layout = Layout.AUTO,
        channels: Channels = Channels.AUTO,
    ) -> "Preprocessing":
        """Return what options of a command say.

        Raises
        ------
        UnsupportedError
            An option that is no number, list of numbers or size.
        """
        sides = None if resize is None else _sizes("--resize", resize)
        middle = None if crop is None else _sizes("--crop", crop)
        return cls(
            mean=(0.0,) if mean is None else _numbers("--mean", mean),
            scale=(1.0,) if scale is None else _numbers("--scale", scale),
            resize=sides[0] if sides is not None and len(sides) == 1 else _pair(sides),
            crop=_pair(middle), layout=layout, channels=channels,
        )  # fmt: skip

    def per_channel(self, what: str, count: int) -> tuple[float, ...]:
        """Return ``mean`` or ``scale`` for each of ``count`` channels.

        Raises
        ------
        UnsupportedError
            There are neither one nor as many.
        """
        given: tuple[float, ...] = getattr(self, what)
        if len(given) not in (1, count):
            raise UnsupportedError(
                f"--{what} has {len(given)} numbers, but the input has {count} "
                f"channel{'s' * (count != 1)}: give 1{f' or {count}' * (count != 1)}"
            )
        return given * count if len(given) == 1 else given


def _numbers(option: str, text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise UnsupportedError(
            f"{option} is {text!r}, but must be numbers with commas between them"
        ) from None


def _sizes(option: str, text: str) -> Sequence[int]:
    if not re.fullmatch(r"[1-9]\d{0,4}(x[1-9]\d{0,4})?", text):
        raise UnsupportedError(f"{option} is {text!r}, but must be like 224 or 224x320")
    return [int(part) for part in text.split("x")]


def _pair(sizes: Sequence[int] | None) -> Size | None:
    """Return height and width; one number stands for both."""
    return None if sizes is None else (sizes[0], sizes[-1])
