# SPDX-License-Identifier: Apache-2.0
"""Queues whose entries may lie in block RAM."""

from amaranth.hdl import Module, Signal, unsigned
from amaranth.lib import memory, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from opendpu_hw.bus.level import next_level


class BlockQueue(wiring.Component):
    """A first-in first-out queue whose memory answers a cycle after it is asked.

    What says that there is an entry, or room for one, is a register.

    Parameters
    ----------
    width : :class:`int`
        Bits of an entry.
    depth : :class:`int`
        Most entries, at least two; one of them is at the output, not in the memory.

    Members
    -------
    i, o : ``In(stream.Signature(width))``, ``Out(stream.Signature(width))``
        An entry is at ``o`` two cycles after it was at ``i``, at the earliest.
    some : ``Out(1)``
        There is an entry, if only on its way to ``o``.
    """

    def __init__(self, *, width, depth):
        if depth < 2:
            raise ValueError(f"depth is {depth}, but must be at least 2")
        self._width, self._stored = width, depth - 1
        super().__init__({
            "i": In(stream.Signature(width)), "o": Out(stream.Signature(width)), "some": Out(1)})

    def elaborate(self, platform):
        m = Module()
        places = 1 << ceil_log2(self._stored)
        m.submodules.store = store = memory.Memory(
            shape=unsigned(self._width), depth=places, init=[])
        writer = store.write_port()
        reader = store.read_port()
        put = Signal(range(places))
        get = Signal(range(places))
        level = Signal(range(self._stored + 1))         # entries in the memory
        stored = Signal()                   # there is one
        full = Signal()                     # there is no room
        take = Signal()
        give = Signal()
        keep = Signal()
        m.d.comb += [
            self.i.ready.eq(~full), take.eq(self.i.valid & ~full),
            keep.eq(self.o.valid & ~self.o.ready), give.eq(stored & ~keep),
            writer.addr.eq(put), writer.data.eq(self.i.payload), writer.en.eq(take),
            reader.addr.eq(get), reader.en.eq(give), self.o.payload.eq(reader.data),
        ]
        m.d.sync += [
            put.eq(put + take), get.eq(get + give),
            level.eq(next_level(level, take, give)),
            stored.eq(take | level[1:].any() | (level[0] & ~give)),
            full.eq(~give & ((level == self._stored) | (take & (level == self._stored - 1)))),
            self.o.valid.eq(give | keep), self.some.eq(take | stored | keep),
        ]
        return m
