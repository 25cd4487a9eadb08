# SPDX-License-Identifier: Apache-2.0
"""Proofs about the order of instructions: completion, transfers, tokens."""

from amaranth.hdl import Array, Assert, Assume, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In
from proof import check

from opendpu_arch.isa import Engine
from opendpu_hw.control import dispatch
from opendpu_hw.engine import dma_order, order


class Completion(wiring.Component):
    """``done`` comes once an instruction, in order, and not before what it stands for."""

    push: In(1)
    immediate: In(1)
    completed: In(1)

    def __init__(self, module):
        self._module = module
        super().__init__()

    def elaborate(self, platform):
        m = Module()
        m.submodules.dut = dut = self._module.DoneOrder(depth=4)
        kinds = Signal(16)  # of all instructions so far
        pushed, done, finished, waiting = (Signal(5, name=n) for n in ("p", "d", "f", "w"))
        kind = kinds.bit_select(done[:4], 1)
        may = dut.completed | (finished > spent(m, kinds, done))
        m.d.comb += [
            dut.push.eq(self.push), dut.immediate.eq(self.immediate),
            dut.completed.eq(self.completed),
            Assume(~self.push | dut.ready), Assume(pushed != 15),
            # only what waits for a completion gets one
            Assume(~self.completed | (finished < waiting)),
            Assert(~dut.done | (done < pushed)),
            # nothing is done before its completion, and all that can be is
            Assert(dut.done == ((done < pushed) & (~kind | may))),
            # no more than fit are in flight
            Assert(~dut.ready | (pushed - done < 4)),
        ]  # fmt: skip
        m.d.sync += [
            pushed.eq(pushed + self.push), done.eq(done + dut.done),
            finished.eq(finished + self.completed),
            waiting.eq(waiting + (self.push & ~self.immediate)),
        ]  # fmt: skip
        with m.If(self.push):
            m.d.sync += kinds.bit_select(pushed[:4], 1).eq(~self.immediate)
        return m


def spent(m, kinds, done):
    """How many of the instructions that are done have waited for a completion."""
    total = Signal(5, name="spent")
    m.d.comb += total.eq(sum(kinds[n] & (n < done) for n in range(16)))
    return total


def test_completion_keeps_the_order():
    faults = [
        (
            "finished.eq(next_level(finished, self.completed, spend))",
            "finished.eq(next_level(finished, self.completed, 0))",
        ),
        ("fresh & (level == i + 1)", "fresh & (level == i)"),
        ("level == self._depth - 1", "level == self._depth"),
        ("(~waiting[0] | early | self.completed))", "(~waiting[0] | self.completed))"),
    ]
    check(Completion, order, faults, cycles=8)


class Transfers(wiring.Component):
    """The same over two channels, which finish independently."""

    push: In(1)
    channel: In(1)
    finished: In(2)

    def __init__(self, module):
        self._module = module
        super().__init__()

    def elaborate(self, platform):
        m = Module()
        m.submodules.dut = dut = self._module.DmaOrder(depth=4)
        where = Signal(16)
        pushed, done = Signal(5), Signal(5)
        ended = Array(Signal(5, name=f"ended{c}") for c in range(2))
        spent = Array(Signal(5, name=f"spent{c}") for c in range(2))
        given = Array(Signal(5, name=f"given{c}") for c in range(2))
        here = where.bit_select(done[:4], 1)
        m.d.comb += [
            dut.push.eq(self.push), dut.channel.eq(self.channel), dut.finished.eq(self.finished),
            Assume(~self.push | dut.ready), Assume(pushed != 15),
            *(Assume(~self.finished[c] | (ended[c] < given[c])) for c in range(2)),
            Assert(dut.done == ((done < pushed) & (ended[here] > spent[here]))),
            Assert(dut.empty == (done == pushed)),
        ]  # fmt: skip
        m.d.sync += [pushed.eq(pushed + self.push), done.eq(done + dut.done)]
        for c in range(2):
            m.d.sync += [
                ended[c].eq(ended[c] + self.finished[c]),
                spent[c].eq(spent[c] + (dut.done & (here == c))),
                given[c].eq(given[c] + (self.push & (self.channel == c))),
            ]
        with m.If(self.push):
            m.d.sync += where.bit_select(pushed[:4], 1).eq(self.channel)
        return m


def test_transfers_keep_the_order():
    faults = [
        ("Mux(channels[0], ended[1], ended[0])", "(ended[1] | ended[0])"),
        ("spend = self.done & mine", "spend = self.done"),
        ("(ended[c] & ~spend)", "ended[c]"),
    ]
    check(Transfers, dma_order, faults, cycles=8)


GIVER, TAKER = Engine.LOAD, Engine.CONV


class Tokens(wiring.Component):
    """No token is lost, none is made up, and instructions stay in order."""

    valid: In(2)
    gives: In(1)
    wants: In(1)
    ready: In(2)
    done: In(2)

    def __init__(self, module):
        class Small(module.Dispatch):
            DEPTH, IN_FLIGHT = 2, 2

        self._dut = Small()
        super().__init__()

    def elaborate(self, platform):
        m = Module()
        m.submodules.dut = dut = self._dut
        kinds, given, taken = Signal(16), Signal(5), Signal(5)
        for n, engine in enumerate((GIVER, TAKER)):
            put, fired, ended, done = (
                Signal(5, name=f"{name}{n}") for name in ("put", "fired", "ended", "done")
            )
            into, out = dut.i[engine], dut.o[engine]
            accepted = into.valid & into.ready
            m.d.comb += [
                into.valid.eq(self.valid[n]), out.ready.eq(self.ready[n]),
                dut.done[engine].eq(self.done[n]), into.payload[0][:4].eq(put),
                Assume(put != 15), Assume(~self.done[n] | (done < fired)),
                Assert(~out.valid | (out.payload[0][:4] == fired[:4])),
                Assert(~out.valid | (fired < put)),
            ]  # fmt: skip
            m.d.sync += [
                put.eq(put + accepted), fired.eq(fired + dut.started[engine]),
                ended.eq(ended + dut.finished[engine]), done.eq(done + self.done[n]),
            ]  # fmt: skip
            if engine == GIVER:
                m.d.comb += into.payload[0][20 + TAKER].eq(self.gives)
                with m.If(accepted):
                    m.d.sync += kinds.bit_select(put[:4], 1).eq(self.gives)
                m.d.sync += given.eq(
                    given + (dut.finished[engine] & kinds.bit_select(ended[:4], 1))
                )
            else:
                m.d.comb += into.payload[0][24 + GIVER].eq(self.wants)
                m.d.sync += taken.eq(taken + (dut.started[engine] & out.payload[0][24 + GIVER]))
        m.d.comb += [Assert(taken <= given), Assert(dut.tokens == (taken != given))]
        return m


def test_tokens_are_neither_lost_nor_made_up():
    faults = [
        ("(take & (counter == 1))", "(take & (counter == 2))"),
        ("eq(give | (some &", "eq((give & ~take) | (some &"),
        ("give[e, other].eq(ended & after.o.payload[other])", "give[e, other].eq(ended)"),
    ]
    check(Tokens, dispatch, faults, cycles=9)
