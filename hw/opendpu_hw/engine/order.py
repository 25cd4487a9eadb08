# SPDX-License-Identifier: Apache-2.0
"""Completion in program order for engines that overlap instructions."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from opendpu_hw.bus.level import next_level


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
    ready, some, busy : ``Out(1)``
        There is room, and it was not cleared a cycle ago; something is in flight; something that
        is no INIT.
    clear : ``In(1)``
        Forget everything.
    """

    def __init__(self, *, depth):
        self._depth = depth
        super().__init__({
            "push": In(1), "immediate": In(1), "completed": In(1), "clear": In(1),
            "done": Out(1), "ready": Out(1), "some": Out(1), "busy": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        waiting = Signal(self._depth)       # bit 0 is the oldest; 1: waits for a completion
        level = Signal(range(self._depth + 1))
        finished = Signal(range(self._depth + 1))
        early = Signal()                    # some have finished before their turn
        full = Signal(init=1)               # so that nothing is taken while it is cleared
        spend = Signal()
        m.d.comb += [
            self.ready.eq(~full),
            spend.eq(self.some & waiting[0] & (early | self.completed)),
            self.done.eq(self.some & (~waiting[0] | early | self.completed)),
            self.busy.eq(waiting.any()),
        ]
        m.d.sync += [
            finished.eq(next_level(finished, self.completed, spend)),
            early.eq(Mux(self.completed == spend, early,
                         self.completed | finished[1:].any())),
        ]
        # Bits past the level are zero, so that a new one can be joined: for both outcomes of
        # `done`, which is known late.
        fresh = self.push & ~self.immediate
        stay = waiting | Cat(fresh & (level == i) for i in range(self._depth))
        move = waiting[1:] | Cat(fresh & (level == i + 1) for i in range(self._depth))
        m.d.sync += waiting.eq(Mux(self.done, move, stay))
        m.d.sync += [
            level.eq(next_level(level, self.push, self.done)),
            full.eq(~self.done & ((level == self._depth)
                                  | (self.push & (level == self._depth - 1)))),
            self.some.eq(self.push | level[1:].any() | (self.some & ~self.done)),
        ]
        with m.If(self.clear):
            m.d.sync += [waiting.eq(0), level.eq(0), finished.eq(0), early.eq(0),
                         full.eq(1), self.some.eq(0)]
        return m
