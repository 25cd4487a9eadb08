# SPDX-License-Identifier: Apache-2.0
"""Copies of TERM (extension ``scaled``), one an operand a cycle."""

from amaranth.hdl import Cat, Module, signed, unsigned
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from opendpu_arch import scaled
from opendpu_hw.memory.table_ram import TableWrite

_WIDTH = 8 * scaled.TERM_BYTES


class TermRam(wiring.Component):
    """One copy: a write port, a read port. Fits a block RAM of 18 kbit.

    Members
    -------
    write : ``In(TableWrite)``
        A word that is written appears to look-ups from the next cycle on.
    en, slot, index : ``In(1)``, ``In``, ``In(8)``
        Look up the term of a byte.
    term : ``Out(signed(32))``
        It, one cycle later, until the next look-up.
    """

    def __init__(self):
        super().__init__({
            "write": In(TableWrite()),
            "en": In(1), "slot": In(range(scaled.TERM_SLOTS)), "index": In(8),
            "term": Out(signed(_WIDTH)),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.ram = ram = Memory(
            shape=unsigned(_WIDTH), depth=scaled.TERM_WORDS, init=[])
        read = ram.read_port()
        write = ram.write_port()
        m.d.comb += [
            read.en.eq(self.en), read.addr.eq(Cat(self.index, self.slot)),
            write.en.eq(self.write.valid), write.addr.eq(self.write.addr[:ceil_log2(
                scaled.TERM_WORDS)]),
            write.data.eq(self.write.data), self.term.eq(read.data),
        ]
        return m
