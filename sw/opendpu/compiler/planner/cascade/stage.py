# SPDX-License-Identifier: Apache-2.0
"""What a cascade is made of: stages that work stripe by stripe, and buffers between them."""

import dataclasses
import functools
import itertools

from opendpu_arch.isa import Engine

NEVER = 1 << 60
"""A cycle or a row that does not come."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Buffer:
    """Rows of a feature map on chip, as many as one column tile of a cascade needs.

    ``stride`` rows share a bank. Sizes in words a bank; costs in cycles a row.
    """

    name: str
    height: int
    stride: int
    row_words: int
    resident: bool = False
    """The feature map is on chip whole; it has no words here."""
    load: int = 0
    """Cycles to load a row; 0 where a stage of the cascade makes it."""
    save: int = 0
    """Cycles to save a row; 0 where DDR does not need it."""
    group_rows: int = 1
    """Rows of an address group."""

    @property
    def groups(self) -> int:
        """Address groups of all rows."""
        return -(-self.height // self.group_rows)

    def words(self, capacity: int) -> int:
        """Words a bank that ``capacity`` address groups take."""
        return 0 if self.resident else capacity * self.stride * self.row_words


@dataclasses.dataclass(frozen=True)
class Need:
    """Rows ``low .. high`` of a buffer, by its number."""

    buffer: int
    low: int
    high: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Stripe:
    """Rows of a result that are made together; costs in cycles."""

    row: int
    rows: int
    needs: tuple[Need, ...]
    cycles: int
    after: int = 0
    """Cycles of the misc engine behind a convolution."""
    passes: int = 1
    """Tiles of channels in which the misc engine follows the array."""
    beside: int = 0
    """Cycles of the array at the same time, for a stage of the misc engine."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Stage:
    """One layer of a cascade."""

    number: int
    """Of the layer in its network."""
    engine: Engine
    stripes: tuple[Stripe, ...]
    output: int
    """Number of the buffer of results."""
    in_place: int | None = None
    """Buffer whose words the results take."""
    tile_words: int = 0
    """Words for results of a convolution that wait for its epilogue."""
    groups: int = 1
    """Blocks of output channels, or channel groups, that are made at a time."""
    pieces: int = 1
    """Parts of the channels of a stripe that are there one after the other."""
    cut: int | None = None
    """A number that all stages with such stripes have, if they were counted."""

    @functools.cached_property
    def lows(self) -> dict[int, list[int]]:
        """The first row of every buffer read that each stripe, or a later one, needs.

        A stripe that needs none counts as if it needed all. After the last stripe it is ``NEVER``.
        """
        found: dict[int, list[int]] = {}
        for number, stripe in enumerate(self.stripes):
            for need in stripe.needs:
                lows = found.setdefault(need.buffer, [-1] * len(self.stripes) + [NEVER])
                lows[number] = need.low if lows[number] < 0 else min(lows[number], need.low)
        for lows in found.values():
            lows[:] = [*itertools.accumulate(reversed(lows), min)][::-1]
        return found
