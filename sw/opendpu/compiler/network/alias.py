# SPDX-License-Identifier: Apache-2.0
"""Feature maps that are bytes of others."""

import dataclasses
from collections.abc import Mapping


@dataclasses.dataclass(frozen=True, kw_only=True)
class Alias:
    """Bytes of feature map ``holder``, counted as if that had no gaps.

    Offset of the first pixel, and bytes from a pixel to the next one in its row and to the one
    below. Any of them may leave gaps, for reading and for writing: slices, the phases of a larger
    map, its inside without a border.
    """

    holder: str
    offset: int
    pixel_bytes: int
    row_bytes: int
    overlapping: bool = False
    """Pixels overlap, and some hang over the ends of their rows."""
    padding: int = 0
    """What they have there: zero, or the zero point of an input with ``scaled``."""
    repeat_h: int = 1
    repeat_w: int = 1
    """How often every pixel of the holder stands below and beside itself: for reading only, LOAD
    repeats it."""

    @property
    def repeats(self) -> bool:
        """Whether pixels are repeated."""
        return self.repeat_h > 1 or self.repeat_w > 1


def root_of(aliases: Mapping[str, Alias], name: str) -> str:
    """Return the feature map whose bytes ``name`` is part of."""
    while name in aliases:
        name = aliases[name].holder
    return name
