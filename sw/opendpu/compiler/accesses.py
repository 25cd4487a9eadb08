# SPDX-License-Identifier: Apache-2.0
"""What commands touch, as arrays: ranges of cells, which are words of banks and blocks of DDR."""

import dataclasses
import itertools
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from opendpu.compiler.banks import BankAccess
from opendpu_arch.target import Target

BLOCK_BYTES = 64
"""Granularity at which DDR is watched."""

Int64Array = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


class MemoryAccess(NamedTuple):
    """Bytes ``low .. high`` of a DDR segment."""

    write: bool
    reg_id: int
    low: int
    high: int


@dataclasses.dataclass(frozen=True)
class Accesses:
    """All accesses of commands, in their order; a column each.

    Rows of ``banks`` are number of the command, write, bank, banks, low, words, step; those of
    ``memory`` are number of the command, write, register, low, high.
    """

    banks: Int64Array
    memory: Int64Array

    @classmethod
    def of(cls, touched: Iterable[Iterable[BankAccess | MemoryAccess]]) -> Self:
        """Return those of commands, each of which touched something."""
        every = [(number, access) for number, accesses in enumerate(touched) for access in accesses]
        banks = [(number, *access) for number, access in every if type(access) is BankAccess]
        memory = [(number, *access) for number, access in every if type(access) is MemoryAccess]
        return cls(
            _columns(banks, 1 + len(BankAccess._fields)),
            _columns(memory, 1 + len(MemoryAccess._fields)),
        )


def _columns(rows: Sequence[Iterable[int]], width: int) -> Int64Array:
    flat = np.fromiter(itertools.chain.from_iterable(rows), np.int64, len(rows) * width)
    return np.ascontiguousarray(flat.reshape(-1, width).T)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Areas:
    """Cells that commands touch, an entry an area, in the order of the commands.

    Words of all banks are numbered one bank after the other; then come the blocks of the DDR
    segments that commands both read and write, the only ones where they can meet. An area is
    ``rows`` ranges of cells, ``pitch`` apart, of which the first is ``low .. high``; it has every
    ``step``-th cell of each, from the first one on. An access that wraps at the end of its banks is
    two areas.
    """

    command: Int64Array
    write: BoolArray
    low: Int64Array
    high: Int64Array
    rows: Int64Array
    step: Int64Array
    pitch: int
    cells: int
    """Number of cells."""

    def moved(self, place: Int64Array) -> Self:
        """Return the same when every command has another place."""
        moved = dataclasses.replace(self, command=place[self.command])
        return moved._at(np.argsort(moved.command, kind="stable"))

    def part(self, first: int, end: int) -> Self:
        """Return the areas ``first .. end``."""
        return self._at(slice(first, end))

    def _at(self, where: slice | Int64Array) -> Self:
        return dataclasses.replace(
            self, command=self.command[where], write=self.write[where], low=self.low[where],
            high=self.high[where], rows=self.rows[where], step=self.step[where],
        )  # fmt: skip


def areas_of(accesses: Accesses, target: Target) -> Areas:
    """Return what commands touch."""
    depth, words = target.bank_depth, target.bank_count * target.bank_depth
    number, write, bank, banks, first, count, step = accesses.banks
    low, end = bank * depth + first, (bank + 1) * depth
    inside = np.minimum(low + count, end)
    again = bank * depth + (first - depth) % step
    rest = low + count - depth
    wrapped = np.flatnonzero(rest > again)
    memory, cells = _memory_areas(accesses.memory, words)
    where = [
        np.stack([number, write, low, inside, banks, step]),
        np.stack([number, write, again, rest, banks, step])[:, wrapped],
        memory,
    ]
    every = np.concatenate(where, axis=1)
    every = every[:, every[2] < every[3]]
    number, write, low, high, rows, step = every[:, np.argsort(every[0], kind="stable")]
    return Areas(
        command=number, write=write.astype(np.bool_), low=low, high=high, rows=rows, step=step,
        pitch=depth, cells=cells,
    )  # fmt: skip


def _memory_areas(accesses: Int64Array, first: int) -> tuple[Int64Array, int]:
    """Return the areas of shared segments, whose cells begin at ``first``, and the cells' end."""
    number, write, register, low, high = accesses
    low, high = low // BLOCK_BYTES, -(-high // BLOCK_BYTES)
    shared = np.intersect1d(register[write == 1], register[write == 0])
    found = []
    for segment in shared.tolist():
        here = register == segment
        one = np.ones(np.count_nonzero(here), np.int64)
        found.append(
            np.stack([number[here], write[here], first + low[here], first + high[here], one, one])
        )
        first += int(high[here].max())
    return np.concatenate([*found, np.empty((6, 0), np.int64)], axis=1), first
