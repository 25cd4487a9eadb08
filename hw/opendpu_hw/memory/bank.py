# SPDX-License-Identifier: Apache-2.0
"""One RAM bank: a read-only port and a read-or-write port, as block RAM has them."""

from amaranth.hdl import Module, unsigned
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from opendpu_hw.memory import dp16kd


def bank_members(*, depth, width):
    """Return the members of a bank, whatever it is made of."""
    abits = ceil_log2(depth)
    return {
        "a_en": In(1), "a_addr": In(abits), "a_data": Out(width),
        "b_en": In(1), "b_write": In(1), "b_addr": In(abits), "b_wdata": In(width),
        "b_data": Out(width),
    }


class Bank(wiring.Component):
    """A bank of ``depth`` words.

    Port A reads, port B reads or writes; both answer one cycle later and hold their data while they
    are not enabled; with ``registered`` a cycle after that, through a register without enable,
    which block RAM may have inside. A word that is written appears to reads from the next cycle on;
    port B answers a write with the word before it, as block RAM does by itself (read first):
    anything else takes a register a bit around it.

    Parameters
    ----------
    depth : :class:`int`
        Words.
    width : :class:`int`
        Bits of a word.
    second_port : :class:`bool`
        Whether port B can read; without it the bank has one read and one write port.
    registered : :class:`bool`
        Whether data come through a register.
    vendor : :class:`str` or None
        ``ecp5``: with two ports that read, of blocks of DP16KD, while they are not deeper than
        one. Then it is not defined what port A answers that reads a word while port B writes it.

    Members
    -------
    a_en, a_addr, a_data : ``In``, ``In``, ``Out``
        Port A.
    b_en, b_write, b_addr, b_wdata, b_data
        Port B; it works with ``b_en`` or ``b_write``, and writes with ``b_write``.
    """

    def __init__(self, *, depth, width, second_port=True, registered=False, vendor=None):
        self._depth, self._width, self._second = depth, width, second_port
        self._registered, self._vendor = registered, vendor
        super().__init__(bank_members(depth=depth, width=width))

    def elaborate(self, platform):
        m = Module()
        if self._vendor == "ecp5" and self._second and dp16kd.width_for(self._depth):
            dp16kd.add_blocks(m, self, depth=self._depth, width=self._width,
                              registered=self._registered)
            return m
        m.submodules.ram = ram = Memory(shape=unsigned(self._width), depth=self._depth, init=[])
        read_a = ram.read_port()
        write_b = ram.write_port()
        m.d.comb += [
            read_a.en.eq(self.a_en), read_a.addr.eq(self.a_addr),
            write_b.en.eq(self.b_write), write_b.addr.eq(self.b_addr),
            write_b.data.eq(self.b_wdata),
        ]
        answer = m.d.sync if self._registered else m.d.comb
        answer += self.a_data.eq(read_a.data)
        if self._second:
            read_b = ram.read_port()
            m.d.comb += [
                read_b.en.eq(self.b_en | self.b_write), read_b.addr.eq(self.b_addr),
            ]
            answer += self.b_data.eq(read_b.data)
        return m
