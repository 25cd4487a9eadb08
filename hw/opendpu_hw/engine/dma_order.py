# SPDX-License-Identifier: Apache-2.0
"""What LOAD and SAVE have in flight over two channels, completed in program order."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from opendpu_hw.bus.level import next_level


class DmaOrder(wiring.Component):
    """Order of the accepted instructions over two channels.

    Parameters
    ----------
    depth : :class:`int`
        Most instructions in flight, a power of two.

    Members
    -------
    push, channel, immediate : ``In(1)``
        An instruction goes to ``channel``; an immediate one to none. Only while ``ready``.
    ready, empty : ``Out(1)``
        There is room; nothing is in flight.
    finished : ``In(2)``
        A channel has finished its oldest instruction, one bit a channel.
    failed : ``In(2)``
        A channel's oldest unfinished instruction has failed: level.
    done : ``Out(1)``
        The oldest instruction is done; at least one cycle after ``finished``.
    left : ``Out(2)``
        With ``done``: on which channel it was; none for an immediate one.
    fault : ``Out(2)``
        The oldest instruction has failed, on this channel: level.
    clear : ``In(1)``
        Forget everything.
    """

    def __init__(self, *, depth):
        self._depth = depth
        super().__init__({
            "push": In(1), "channel": In(1), "immediate": In(1), "ready": Out(1), "empty": Out(1),
            "finished": In(2), "failed": In(2), "done": Out(1), "left": Out(2), "fault": Out(2),
            "clear": In(1),
        })

    def elaborate(self, platform):
        if self._depth & (self._depth - 1):
            raise ValueError(f"depth is {self._depth}, but must be a power of two")
        m = Module()
        level = Signal(range(self._depth + 1))
        place = Signal(range(self._depth + 1))          # of an instruction that is pushed
        channels = Signal(self._depth)                  # bit 0 is the oldest
        immediates = Signal(self._depth)
        waiting = [Signal(range(self._depth + 1), name=f"waiting_{c}") for c in range(2)]
        ended = Signal(2)                   # channel has a finished instruction to report
        some = Signal()
        m.d.comb += [
            self.ready.eq(~level[-1]),
            self.empty.eq(~some),
            self.done.eq(some & (immediates[0] | Mux(channels[0], ended[1], ended[0]))),
            place.eq(level - self.done),
        ]
        m.d.sync += some.eq(self.push | level[1:].any() | (some & ~self.done))
        for c in range(2):
            mine = Signal(name=f"mine_{c}")
            spend = self.done & mine
            m.d.comb += [
                mine.eq(some & ~immediates[0] & (channels[0] == c)),
                self.left[c].eq(spend),
                self.fault[c].eq(mine & ~ended[c] & self.failed[c]),
            ]
            m.d.sync += [
                waiting[c].eq(next_level(waiting[c], self.finished[c], spend)),
                ended[c].eq(self.finished[c] | waiting[c][1:].any() | (ended[c] & ~spend)),
            ]
        # Bits past the level are zero, so a new one can be joined.
        with m.If(self.push | self.done):
            m.d.sync += [
                level.eq(place + self.push),
                channels.eq((channels >> self.done) | ((self.push & self.channel) << place)),
                immediates.eq((immediates >> self.done) | ((self.push & self.immediate) << place)),
            ]
        with m.If(self.clear):
            m.d.sync += [
                level.eq(0), some.eq(0), channels.eq(0), immediates.eq(0), ended.eq(0),
                waiting[0].eq(0), waiting[1].eq(0)]
        return m
