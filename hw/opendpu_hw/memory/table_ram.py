# SPDX-License-Identifier: Apache-2.0
"""Copies of the table memory (extension ``table``), one a result a cycle."""

from amaranth.hdl import Cat, Module, Signal, unsigned
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out, Signature
from amaranth.utils import ceil_log2

from opendpu_arch import table

#: Width of the field ``table``: 0, or the number of a slot and one.
SELECT_BITS = 4
_WORD = 8 * table.WORD_BYTES
_LOW = ceil_log2(table.WORD_BYTES)
_ADDRESS = ceil_log2(table.WORDS)


class TableWrite(Signature):
    """One word a cycle into every copy, never refused."""

    def __init__(self):
        super().__init__({"valid": Out(1), "addr": Out(_ADDRESS), "data": Out(_WORD)})


class TableRam(wiring.Component):
    """One copy: a write port of a word, a read port of an entry. Fits a block RAM of 18 kbit.

    Members
    -------
    write : ``In(TableWrite)``
        A word that is written appears to look-ups from the next cycle on.
    en, table, index : ``In(1)``, ``In(4)``, ``In(8)``
        Look up the entry of a byte in slot ``table - 1``.
    entry : ``Out(8)``
        It, one cycle later, until the next look-up.
    """

    def __init__(self):
        super().__init__({
            "write": In(TableWrite()),
            "en": In(1), "table": In(SELECT_BITS), "index": In(table.INDEX_BITS),
            "entry": Out(8),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.ram = ram = Memory(shape=unsigned(_WORD), depth=table.WORDS, init=[])
        read = ram.read_port()
        write = ram.write_port()
        slot = Signal(ceil_log2(table.SLOTS))
        low = Signal(_LOW, reset_less=True)
        m.d.comb += [
            slot.eq(self.table - 1),
            read.en.eq(self.en), read.addr.eq(Cat(self.index[_LOW:], slot)),
            write.en.eq(self.write.valid), write.addr.eq(self.write.addr),
            write.data.eq(self.write.data),
            self.entry.eq(read.data.word_select(low, 8)),
        ]
        with m.If(self.en):
            m.d.sync += low.eq(self.index[:_LOW])
        return m
