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
        stop = Signal()
        m.d.comb += stop.eq(self.stop | self.failed)
        plans, jobs = self._queues(m, stop)
        issuer, lengths = self._offer_addresses(m, plans, stop)
        self._take_responses(m, issuer, stop)
        m.submodules.reader = reader = SaveReader(self._target)
        m.submodules.packer = packer = Packer(lanes=self._target.channel_parallel)
        wiring.connect(m, wiring.flipped(self.read), reader.read)
        wiring.connect(m, jobs, reader.i)
        run = self._run()
        sending = self._pack(m, run, packer, lengths, stop)
        m.d.comb += reader.clear.eq(stop)
        self._runs_of_words(m, run, reader.o, stop)
        self._send_beats(m, packer, lengths, sending, stop)
        return m

    def _queues(self, m, stop):
        """Return plans for the address side and jobs for the bank side."""
        m.submodules.plans = plans = FieldQueue(plan_fields, depth=self.DEPTH)
        m.submodules.jobs = jobs = FieldQueue(save_job_fields(self._target), depth=self.DEPTH)
        wiring.connect(m, wiring.flipped(self.plan), plans.i)
        wiring.connect(m, wiring.flipped(self.job), jobs.i)
        m.d.comb += [plans.clear.eq(stop), jobs.clear.eq(stop)]
        return plans.o, jobs.o

    def _offer_addresses(self, m, plans, stop):
        """Offer the bursts of the plans; return the issuer and lengths of those offered."""
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
        wiring.connect(m, plans, bursts.i)
        wiring.connect(m, bursts.o, issuer.i)
        return issuer, lengths.o

    def _take_responses(self, m, issuer, stop):
        """Take responses to bursts; the last one of a SAVE finishes it, an error fails it."""
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

    def _run(self):
        """Return what comes next for the packer: a run of bytes."""
        fields = run_fields(self._target.channel_parallel)
        return SimpleNamespace(
            valid=Signal(name="run_valid"), ready=Signal(name="run_ready"),
            **{name: Signal(width, name=f"run_{name}") for name, width in fields.items()})

    def _pack(self, m, run, packer, lengths, stop):
        """Give runs to the packer a cycle later; return whether a beat is sent.

        So it is known a cycle before whether a run fills a beat.
        """
        m.d.comb += run.fills.eq((run.offset + run.count)[BEAT_SHIFT:].any())
        packed = Signal()
        sending = Signal()
        # From registers, not through the modules between: much logic follows.
        m.d.comb += [
            sending.eq(lengths.valid & self.bus.wready), packer.i.valid.eq(packed),
            run.ready.eq(~packed | packer.takes(sending)),
        ]
        with m.If(run.ready):
            m.d.sync += packed.eq(run.valid)
        with m.If(stop):
            m.d.sync += packed.eq(0)
        for name, width in run_fields(self._target.channel_parallel).items():
            kept = Signal(width, name=f"packed_{name}", reset_less=True)
            with m.If(run.ready):
                m.d.sync += kept.eq(getattr(run, name))
            m.d.comb += getattr(packer.i, name).eq(kept)
        return sending

    def _runs_of_words(self, m, run, word, stop):
        """Make a run of each word, or one of the result for all words of a pixel with argmax."""
        copied = [
            run.valid.eq(word.valid), word.ready.eq(run.ready),
            run.data.eq(word.data), run.count.eq(word.count), run.offset.eq(word.offset),
            run.first.eq(word.range_first & word.pixel_first),
            run.last.eq(word.range_last & word.pixel_last),
        ]
        if not self._target.save_argmax:
            m.d.comb += copied
            return
        argmax = self._argmax(m, word, stop)
        best = argmax.o
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

    def _argmax(self, m, word, stop):
        """Search the words of pixels; ``info``: first and last of a range, ``largest``, offset."""
        info = Cat(word.range_first, word.range_last, word.largest, word.offset)
        m.submodules.argmax = argmax = Argmax(
            lanes=self._target.channel_parallel, info=len(info))
        m.d.comb += [
            argmax.clear.eq(stop), argmax.i.valid.eq(word.valid & word.argmax),
            argmax.i.data.eq(word.data), argmax.i.count.eq(word.count),
            argmax.i.first.eq(word.pixel_first), argmax.i.last.eq(word.pixel_last),
            argmax.i.info.eq(info),
        ]
        return argmax

    def _send_beats(self, m, packer, lengths, sending, stop):
        """Send the beats of the bursts that have been offered; without strobes after ``stop``."""
        beat = packer.o
        sent = Signal(4)
        held = Signal()                     # offered but not taken: must not change
        go = Signal()
        last = Signal()
        m.d.comb += [
            self.bus.wvalid.eq(lengths.valid & (beat.valid | stop)),
            self.bus.wdata.eq(beat.data),
            self.bus.wstrb.eq(Mux(beat.valid, beat.strobe, 0)),
            last.eq(sent == lengths.len), self.bus.wlast.eq(last),
            go.eq(self.bus.wvalid & self.bus.wready),
            beat.ready.eq(sending),
            lengths.ready.eq(go & last),
            held.eq(self.bus.wvalid & ~self.bus.wready),
            packer.clear.eq(stop & ~(held & beat.valid)),
        ]
        with m.If(go):
            m.d.sync += sent.eq(Mux(last, 0, sent + 1))
