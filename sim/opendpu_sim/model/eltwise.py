# SPDX-License-Identifier: Apache-2.0
"""ELEW: sum of one to four inputs, or product of two.

Row k of an input lies in bank ``b = bank_id_in mod PP + k * jump_bank``, taken modulo PP inside
the group of bank_id_in, at ``bank_addr_in + (b // PP) * jump_read_endl``; with ``share_pp`` every
row is row 0. Columns are jump_read apart, and 0 repeats one column. The output has ``jump_bank`` 1.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np

from opendpu_arch import isa, numerics
from opendpu_arch.isa import ElewType
from opendpu_sim.model.memory import Index, Memory
from opendpu_sim.model.results import Results, results
from opendpu_sim.model.scaled import Records, Terms, records, terms
from opendpu_sim.model.walk import Walker


@dataclasses.dataclass(frozen=True, kw_only=True)
class ElewStep:
    """A planned ELEW."""

    number: int
    mnemonic: str
    spans: tuple[tuple[str, int, int], ...]
    sources: tuple[Index, ...]
    """Word indexes, shape (rows, columns, groups) each."""
    results: Results
    shift_read: tuple[int, ...]
    shift_write: int
    multiply: bool
    relu: bool
    terms: Terms | None
    """What stands for inputs; None: they themselves."""
    scaled: Records | None
    """Multipliers, where there are terms."""
    access = None

    def run(self, memory: Memory) -> None:
        """Add or multiply."""
        inputs = [memory.words.take(source, axis=0) for source in self.sources]
        if self.terms is not None and self.scaled is not None:
            total = self.terms.total(memory, inputs, multiply=self.multiply)
            self.results.write(memory, self.scaled.results(memory, total))
            return
        operation = numerics.eltwise_mult if self.multiply else numerics.eltwise_add
        result = operation(
            inputs,
            shift_read=self.shift_read,
            shift_write=self.shift_write,
            relu=self.relu,
        )
        self.results.write(memory, result)

    def trace(self, memory: Memory) -> None:
        """An output depends on its element of every input."""
        taint = np.zeros((*self.results.destination.shape, memory.words.shape[1]), np.int32)
        for number, source in enumerate(self.sources):
            field = f"bank_addr_in of input {number}"
            np.maximum(taint, memory.taint_of(source, self.number, self.mnemonic, field), out=taint)
        if self.terms is not None and self.scaled is not None:
            taint = np.maximum(taint, self.scaled.taint(memory))
            np.maximum(taint, self.terms.taint(memory), out=taint)
        self.results.set_taint(memory, taint)


def plan(number: int, i: isa.Elew, inputs: Sequence[isa.ElewInit], walker: Walker) -> ElewStep:
    """Return the step of an ELEW that consumes ``inputs``."""
    parallel = walker.target.pixel_parallel
    rows = np.arange(i.valid_pixel_parallel)

    def index(bank_id: int, b: Index, first: int, endl: int, jump: int) -> Index:
        banks = bank_id // parallel * parallel + b % parallel
        return walker.index(banks, first + b // parallel * endl, i.length, jump, i.channel_group)

    sources = []
    for entry in inputs:
        b = entry.bank_id_in % parallel + (0 if entry.share_pp else entry.jump_bank) * rows
        sources.append(
            index(entry.bank_id_in, b, entry.bank_addr_in, entry.jump_read_endl, entry.jump_read)
        )
    b = i.bank_id_out % parallel + rows
    return ElewStep(
        number=number,
        mnemonic=i.mnemonic(),
        spans=(
            *(
                (
                    f"bank_addr_in of input {entry.id}",
                    entry.bank_addr_in,
                    (i.length - 1) * entry.jump_read + i.channel_group,
                )
                for entry in inputs
            ),
            ("bank_addr_out", i.bank_addr_out, (i.length - 1) * i.jump_write + i.channel_group),
        ),
        sources=tuple(sources),
        results=results(
            number,
            i,
            index(i.bank_id_out, b, i.bank_addr_out, i.jump_write_endl, i.jump_write),
            walker.target,
        ),
        shift_read=tuple(entry.shift_read for entry in inputs),
        shift_write=i.shift_write,
        multiply=i.elew_type == ElewType.MULT,
        relu=bool(i.act_type),
        terms=terms(number, i, inputs, walker.target) if i.scaled else None,
        scaled=records(
            number, i, "bank_addr_scale", inputs[0].bank_addr_scale, i.channel_group, walker.target
        )
        if i.scaled
        else None,
    )
