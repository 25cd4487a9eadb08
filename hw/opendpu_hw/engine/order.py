# SPDX-License-Identifier: Apache-2.0
"""Completion in program order for engines that overlap instructions."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out


class DoneOrder(wiring.Component):
    """Turn completions into one ``done`` pulse an instruction, in the order of acceptance.

    Instructions pushed as ``immediate`` (INITs) complete as soon as all before them have.

    Parameters
    ----------
    depth : :class:`int`
        Most instructions in flight; ``ready`` falls when they are.

    Members
    -------
    push, immediate : ``In(1)``
        An instruction was accepted; it needs no completion.
    completed : ``In(1)``
        The oldest one that needs a completion has finished.
    done : ``Out(1)``
        The oldest instruction is finished.
    ready, busy : ``Out(1)``
        There is room; something is in flight that is no INIT.
    clear : ``In(1)``
        Forget everything.
    """

    def __init__(self, *, depth):
        self._depth = depth
        super().__init__({
            "push": In(1), "immediate": In(1), "completed": In(1), "clear": In(1),
            "done": Out(1), "ready": Out(1), "busy": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        waiting = Signal(self._depth)       # bit 0 is the oldest; 1: waits for a completion
        level = Signal(range(self._depth + 1))
        finished = Signal(range(self._depth + 1))
        spend = Signal()
        m.d.comb += [
            self.ready.eq(level != self._depth),
            spend.eq((level != 0) & waiting[0] & ((finished != 0) | self.completed)),
            self.done.eq((level != 0) & (~waiting[0] | spend)),
            self.busy.eq(waiting.any()),
        ]
        m.d.sync += finished.eq(finished + self.completed - spend)
        shifted = Signal(self._depth)
        place = Signal(range(self._depth + 1))
        m.d.comb += [
            shifted.eq(Cat(waiting[1:], 0) if self._depth > 1 else 0),
            place.eq(level - self.done),
        ]
        with m.If(self.done):
            m.d.sync += waiting.eq(shifted)
        with m.If(self.push):
            for i in range(self._depth):
                with m.If(place == i):
                    m.d.sync += waiting[i].eq(~self.immediate)
        m.d.sync += level.eq(level + self.push - self.done)
        with m.If(self.clear):
            m.d.sync += [waiting.eq(0), level.eq(0), finished.eq(0)]
        return m
