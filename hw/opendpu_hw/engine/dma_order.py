# SPDX-License-Identifier: Apache-2.0
"""What LOAD and SAVE have in flight over two channels, completed in program order."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out


class DmaOrder(wiring.Component):
    """Order of the accepted instructions over two channels.

    Parameters
    ----------
    depth : :class:`int`
        Most instructions in flight.
    tag : shape
        What an instruction is remembered by.

    Members
    -------
    push, channel, immediate, tag : ``In``
        An instruction goes to ``channel``; an immediate one to none. Only while ``ready``.
    ready, empty : ``Out(1)``
        There is room; nothing is in flight.
    entries : ``Out(ArrayLayout)``
        In flight, the oldest first: ``valid``, ``channel``, ``immediate``, ``tag``.
    finished : ``In(2)``
        A channel has finished its oldest instruction, one bit a channel.
    failed : ``In(2)``
        A channel's oldest unfinished instruction has failed: level.
    done : ``Out(1)``
        The oldest instruction is done; at least one cycle after ``finished``.
    fault : ``Out(2)``
        The oldest instruction has failed, on this channel: level.
    clear : ``In(1)``
        Forget everything.
    """

    def __init__(self, *, depth, tag):
        self._depth = depth
        entry = data.StructLayout({"valid": 1, "channel": 1, "immediate": 1, "tag": tag})
        super().__init__({
            "push": In(1), "channel": In(1), "immediate": In(1), "tag": In(tag),
            "ready": Out(1), "empty": Out(1),
            "entries": Out(data.ArrayLayout(entry, depth)),
            "finished": In(2), "failed": In(2), "done": Out(1), "fault": Out(2), "clear": In(1),
        })

    def elaborate(self, platform):
        m = Module()
        depth = self._depth
        head = self.entries[0]
        waiting = [Signal(range(depth + 1), name=f"waiting_{c}") for c in range(2)]
        ended = Signal(2)                   # channel has a finished instruction to report
        m.d.comb += [
            self.ready.eq(~self.entries[depth - 1].valid),
            self.empty.eq(~head.valid),
            self.done.eq(head.valid & (head.immediate | Mux(head.channel, ended[1], ended[0]))),
        ]
        for c in range(2):
            mine = Signal(name=f"mine_{c}")
            m.d.comb += [
                ended[c].eq(waiting[c] != 0),
                mine.eq(head.valid & ~head.immediate & (head.channel == c)),
                self.fault[c].eq(mine & ~ended[c] & self.failed[c]),
            ]
            m.d.sync += waiting[c].eq(waiting[c] + self.finished[c] - (self.done & mine))
        with m.If(self.done):
            for i in range(depth - 1):
                m.d.sync += self.entries[i].eq(self.entries[i + 1])
            m.d.sync += self.entries[depth - 1].valid.eq(0)
        with m.If(self.push):
            for i in range(depth):
                free = ~self.entries[i].valid
                first = free if i == 0 else free & self.entries[i - 1].valid
                moved = Signal(name=f"moved_{i}")
                after = self.entries[i + 1].valid if i + 1 < depth else 0
                m.d.comb += moved.eq(Mux(self.done, self.entries[i].valid & ~after, first))
                with m.If(moved):
                    m.d.sync += [
                        self.entries[i].valid.eq(1), self.entries[i].channel.eq(self.channel),
                        self.entries[i].immediate.eq(self.immediate),
                        self.entries[i].tag.eq(self.tag),
                    ]
        with m.If(self.clear):
            m.d.sync += [waiting[0].eq(0), waiting[1].eq(0)]
            m.d.sync += [self.entries[i].valid.eq(0) for i in range(depth)]
        return m
