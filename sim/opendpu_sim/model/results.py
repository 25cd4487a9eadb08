# SPDX-License-Identifier: Apache-2.0
"""Results on their way to the banks, through a table where the instruction names one."""

import dataclasses

import numpy as np

from opendpu_arch import isa, numerics, table
from opendpu_arch.target import Target
from opendpu_sim.model.memory import Index, Memory, Taint, Words


@dataclasses.dataclass(frozen=True)
class Results:
    """Where an instruction's results go."""

    number: int
    mnemonic: str
    destination: Index
    """Word index, shape (rows, columns, groups)."""
    table: Index | None
    """Words of the table, shape (:data:`opendpu_arch.table.SLOT_WORDS`,); None: no table."""

    def write(self, memory: Memory, y: Words) -> None:
        """Write int8 results, as many words of CP bytes as the destination has."""
        if self.table is not None:
            entries = memory.words[self.table, : table.WORD_BYTES].reshape(-1)
            y = numerics.look_up(y, entries)
        memory.write(self.destination, y)

    def set_taint(self, memory: Memory, taint: Taint) -> None:
        """Record the taint of results; behind a table they depend on all of it."""
        if self.table is not None:
            unused = np.zeros((table.SLOT_WORDS, memory.words.shape[1]), np.bool_)
            unused[:, table.WORD_BYTES :] = True
            entries = memory.taint_of(self.table, self.number, self.mnemonic, "table", unused)
            taint = np.maximum(taint, entries.max())
        memory.set_taint(self.destination, taint)


def results(
    number: int,
    i: isa.Conv | isa.Alu | isa.Pool | isa.DptWise | isa.Elew,
    destination: Index,
    target: Target,
) -> Results:
    """Return where the results of an instruction go."""
    words = None
    if i.table:
        first = target.table_bank * target.bank_depth + (i.table - 1) * table.SLOT_WORDS
        words = first + np.arange(table.SLOT_WORDS)
    return Results(number, i.mnemonic(), destination, words)
