# SPDX-License-Identifier: Apache-2.0
"""Where the rows, columns and channel groups of a feature map are in the image banks."""

import dataclasses
import functools
from typing import NamedTuple

from opendpu.compiler.banks.region import BankAccess, Region
from opendpu.compiler.limits import ADDRESS_GROUPS
from opendpu_arch.target import Target


class Place(NamedTuple):
    """Where a row is: bank inside the group, place among the rows of that bank, address group."""

    bank: int
    offset: int
    address_group: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Layout:
    """A :class:`Region` seen as rows of ``columns`` pixels of ``groups`` words."""

    target: Target
    region: Region
    columns: int
    groups: int
    first_column: int = 0
    first_group: int = 0

    @functools.cached_property
    def row_words(self) -> int:
        """Words of one row."""
        return self.columns * self.groups

    @functools.cached_property
    def first_bank(self) -> int:
        """Id of the first bank of the group."""
        return self.region.bank_group * self.target.pixel_parallel

    def place(self, row: int) -> Place:
        """Return where ``row`` is; rows above the first one (padding) have a place too."""
        index = row - self.region.first_row
        bank, offset = divmod(index, self.region.stride)
        group, bank = divmod(bank, self.target.pixel_parallel)
        return Place(bank, offset, group)

    def address_group(self, row: int) -> int:
        """Return the address group of ``row``."""
        region = self.region
        return (row - region.first_row) // (region.stride * self.target.pixel_parallel)

    def base(self, address_group: int) -> int:
        """Return the first word of an address group."""
        group = address_group % self.region.capacity
        return self.region.base + group * self.region.stride * self.row_words

    def word(self, address_group: int, offset: int, column: int, group: int = 0) -> int:
        """Return the word of a pixel; ``column`` and ``group`` count in the feature map."""
        inside = (column - self.first_column) * self.groups + group - self.first_group
        at = self.base(address_group) + offset * self.row_words + inside
        return at % self.target.bank_depth

    def bases(self, row: int, column: int, group: int = 0) -> tuple[int, int, int, int]:
        """Return the words of ``column`` in the four address groups from ``row`` on."""
        first = self.place(row).address_group
        a, b, c, d = (self.word(first + i, 0, column, group) for i in range(ADDRESS_GROUPS))
        return a, b, c, d

    def groups_touched(self, row: int, rows: int) -> int:
        """Return how many address groups the banks of ``rows`` rows from ``row`` on span."""
        return self.address_group(row + rows - 1) - self.address_group(row) + 1

    def accesses_of_groups(
        self, row: int, rows: int, group: int, groups: int, *, write: bool
    ) -> tuple[BankAccess, ...]:
        """Return the words of some channel groups in ``rows`` rows from ``row`` on."""
        every = self.accesses(row, rows, write=write)
        if groups == self.groups:
            return every
        first = group - self.first_group
        return tuple(
            access._replace(
                low=(access.low + number) % self.target.bank_depth,
                words=access.words - number, step=self.groups,
            )
            for access in every
            for number in range(first, first + groups)
        )  # fmt: skip

    def accesses(self, row: int, rows: int, *, write: bool) -> tuple[BankAccess, ...]:
        """Return the words of ``rows`` rows from ``row`` on, exactly these.

        Neighbouring banks that hold the same places of the same address group are one access.
        """
        stride, parallel = self.region.stride, self.target.pixel_parallel
        first = row - self.region.first_row
        last = first + rows - 1
        runs: list[tuple[int, int, int, int, int]] = []
        for bank in range(first // stride, last // stride + 1):
            low = first % stride if bank == first // stride else 0
            high = last % stride if bank == last // stride else stride - 1
            group, inside = divmod(bank, parallel)
            if runs and (group, low, high) == (runs[-1][0], *runs[-1][3:]):
                runs[-1] = (group, runs[-1][1], runs[-1][2] + 1, low, high)
            else:
                runs.append((group, inside, 1, low, high))
        return tuple(
            BankAccess(
                write,
                self.first_bank + bank,
                banks,
                (self.base(group) + low * self.row_words) % self.target.bank_depth,
                (high - low + 1) * self.row_words,
            )
            for group, bank, banks, low, high in runs
        )


def address_groups(target: Target, stride: int, rows: int) -> int:
    """Return the address groups that ``rows`` rows from bank 0 on need."""
    return -(-rows // (stride * target.pixel_parallel))
