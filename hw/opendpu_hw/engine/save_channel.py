# SPDX-License-Identifier: Apache-2.0
"""One of the two halves of SAVE: a read port of the banks and a write port of the bus."""

from types import SimpleNamespace

from amaranth.hdl import Cat, Const, Module, Mux, ResetInserter, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from opendpu_hw.bus.axi4 import constant_fields, write_signature
from opendpu_hw.bus.burst import (
    BEAT_SHIFT,
    OUTSTANDING,
    BurstGenerator,
    BurstIssuer,
    plan_fields,
)
from opendpu_hw.bus.fields import FieldQueue, FieldStream
from opendpu_hw.bus.packer import Packer, run_fields
from opendpu_hw.datapath.argmax import Argmax
from opendpu_hw.engine.save_reader import SaveReader, save_job_fields
from opendpu_hw.memory.ports import BankRead


class SaveChannel(wiring.Component):
    """Read the words of SAVEs and write their bytes to memory, one word a cycle.

    Addresses are offered ahead of the data; a SAVE's words are read while responses to the ones
    before it are awaited.

    Parameters
    ----------
    target : :class:`opendpu_arch.target.Target`
        Parallelism and memories.

    Members
    -------
    plan, job : ``In(FieldStream)``
        :data:`opendpu_hw.bus.burst.plan_fields` and
        :func:`opendpu_hw.engine.save_reader.save_job_fields` of SAVEs.
    bus, read : ``Out(write_signature(128))``, ``Out(BankRead)``
        The ports.
    finished : ``Out(1)``
        The last response to a SAVE arrives.
    failed, fault_addr : ``Out(1)``, ``Out(40)``
        The oldest unfinished SAVE met a bus error, in the burst at this address: level.
    stop : ``In(1)``
        Drop all work; bursts already offered are completed, without strobes.
    empty : ``Out(1)``
        Nothing is outstanding on the bus.
    """

    #: SAVEs that can wait in a channel.
    DEPTH = 4

    def __init__(self, target):
        self._target = target
        super().__init__({
            "plan": In(FieldStream(plan_fields)), "job": In(FieldStream(save_job_fields(target))),
            "bus": Out(write_signature(128)), "read": Out(BankRead(target)),
            "finished": Out(1), "failed": Out(1), "fault_addr": Out(40),
            "stop": In(1), "empty": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        target = self._target
        lanes = target.channel_parallel
        stop = Signal()
        m.d.comb += stop.eq(self.stop | self.failed)

        # -- queues: plans for the address side, jobs for the bank side ---------------------------
        m.submodules.plans = plans = FieldQueue(plan_fields, depth=self.DEPTH)
        m.submodules.jobs = jobs = FieldQueue(save_job_fields(target), depth=self.DEPTH)
        wiring.connect(m, wiring.flipped(self.plan), plans.i)
        wiring.connect(m, wiring.flipped(self.job), jobs.i)
        m.d.comb += [plans.clear.eq(stop), jobs.clear.eq(stop)]

        # -- address side -------------------------------------------------------------------------
        m.submodules.bursts = bursts = ResetInserter({"sync": stop})(BurstGenerator())
        m.submodules.issuer = issuer = BurstIssuer()
        m.submodules.lengths = lengths = FieldQueue({"len": 4}, depth=OUTSTANDING)
        m.d.comb += [
            *constant_fields(self.bus, "aw"),
            self.bus.awaddr.eq(issuer.addr), self.bus.awlen.eq(issuer.len),
            self.bus.awvalid.eq(issuer.valid), issuer.ready.eq(self.bus.awready),
            # A burst may still be taken in the first cycle of ``stop``, none later.
            self.empty.eq(issuer.empty & ~bursts.o.valid),
            lengths.i.valid.eq(issuer.taken), lengths.i.len.eq(issuer.i.len),
        ]
        wiring.connect(m, plans.o, bursts.i)
        wiring.connect(m, bursts.o, issuer.i)

        # -- responses ----------------------------------------------------------------------------
        answered = Signal()
        m.d.comb += [
            self.bus.bready.eq(1),
            answered.eq(self.bus.bvalid),
            issuer.retire.eq(answered),
            self.finished.eq(answered & issuer.oldest_last & ~self.bus.bresp[1] & ~stop),
        ]
        with m.If(answered & self.bus.bresp[1] & ~stop):
            m.d.sync += [
                self.failed.eq(1),
                self.fault_addr.eq(Cat(Const(0, BEAT_SHIFT), issuer.oldest_beat)),
            ]
        with m.If(self.stop):
            m.d.sync += self.failed.eq(0)

        # -- data: banks, argmax, packer ----------------------------------------------------------
        m.submodules.reader = reader = SaveReader(target)
        m.submodules.packer = packer = Packer(lanes=lanes)
        wiring.connect(m, wiring.flipped(self.read), reader.read)
        wiring.connect(m, jobs.o, reader.i)
        word = reader.o
        # What comes next is known a cycle before it is packed, and whether it fills a beat.
        fields = run_fields(lanes)
        run = SimpleNamespace(
            valid=Signal(name="run_valid"), ready=Signal(name="run_ready"),
            **{name: Signal(width, name=f"run_{name}") for name, width in fields.items()})
        m.d.comb += run.fills.eq((run.offset + run.count)[BEAT_SHIFT:].any())
        packed, sending = Signal(), Signal()
        # From registers, not through the modules between: it goes far.
        m.d.comb += [
            sending.eq(lengths.o.valid & self.bus.wready), packer.i.valid.eq(packed),
            run.ready.eq(~packed | packer.takes(sending)),
        ]
        with m.If(run.ready):
            m.d.sync += packed.eq(run.valid)
        with m.If(stop):
            m.d.sync += packed.eq(0)
        for name, width in fields.items():
            kept = Signal(width, name=f"packed_{name}", reset_less=True)
            with m.If(run.ready):
                m.d.sync += kept.eq(getattr(run, name))
            m.d.comb += getattr(packer.i, name).eq(kept)
        m.d.comb += [
            reader.clear.eq(stop),
        ]
        copied = [
            run.valid.eq(word.valid), word.ready.eq(run.ready),
            run.data.eq(word.data), run.count.eq(word.count), run.offset.eq(word.offset),
            run.first.eq(word.range_first & word.pixel_first),
            run.last.eq(word.range_last & word.pixel_last),
        ]
        if target.save_argmax:
            info = Cat(word.range_first, word.range_last, word.largest, word.offset)
            m.submodules.argmax = argmax = Argmax(lanes=lanes, info=len(info))
            best = argmax.o
            m.d.comb += [
                argmax.clear.eq(stop), argmax.i.valid.eq(word.valid & word.argmax),
                argmax.i.data.eq(word.data), argmax.i.count.eq(word.count),
                argmax.i.first.eq(word.pixel_first), argmax.i.last.eq(word.pixel_last),
                argmax.i.info.eq(info),
            ]
            with m.If(argmax.busy | (word.valid & word.argmax)):
                m.d.comb += [
                    run.valid.eq(best.valid), best.ready.eq(run.ready),
                    word.ready.eq(argmax.takes(run.ready) & word.argmax),
                    # The packer does not look at more bytes than one.
                    run.data.eq(Cat(Mux(best.info[2], best.value, best.index), word.data[8:])),
                    run.count.eq(1),
                    run.first.eq(best.info[0]), run.last.eq(best.info[1]),
                    run.offset.eq(best.info[3:]),
                ]
            with m.Else():
                m.d.comb += copied
        else:
            m.d.comb += copied

        # -- data channel: beats of the bursts already offered ------------------------------------
        beat = packer.o
        sent = Signal(4)
        held = Signal()                     # offered but not taken: must not change
        go = Signal()
        last = Signal()
        m.d.comb += [
            self.bus.wvalid.eq(lengths.o.valid & (packer.o.valid | stop)),
            self.bus.wdata.eq(beat.data),
            self.bus.wstrb.eq(Mux(packer.o.valid, beat.strobe, 0)),
            last.eq(sent == lengths.o.len), self.bus.wlast.eq(last),
            go.eq(self.bus.wvalid & self.bus.wready),
            packer.o.ready.eq(sending),
            lengths.o.ready.eq(go & last),
            held.eq(self.bus.wvalid & ~self.bus.wready),
            packer.clear.eq(stop & ~(held & packer.o.valid)),
        ]
        with m.If(go):
            m.d.sync += sent.eq(Mux(last, 0, sent + 1))
        return m
