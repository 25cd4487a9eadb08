# SPDX-License-Identifier: Apache-2.0
"""One of the two halves of SAVE: a read port of the banks and a write port of the bus."""

from amaranth.hdl import Cat, Const, Module, Mux, ResetInserter, Signal
from amaranth.lib import data, fifo, stream, wiring
from amaranth.lib.wiring import In, Out

from opendpu_hw.bus.axi4 import constant_fields, write_signature
from opendpu_hw.bus.burst import (
    BEAT_SHIFT,
    OUTSTANDING,
    BurstGenerator,
    BurstIssuer,
    plan_shape,
)
from opendpu_hw.bus.packer import Packer
from opendpu_hw.datapath.argmax import Argmax
from opendpu_hw.engine.save_reader import SaveReader, save_job_shape
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
    i : ``In(stream)``
        ``plan`` (:data:`opendpu_hw.bus.burst.plan_shape`) and ``job``
        (:func:`opendpu_hw.engine.save_reader.save_job_shape`).
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
            "i": In(stream.Signature(data.StructLayout(
                {"plan": plan_shape, "job": save_job_shape(target)}))),
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
        clear = ResetInserter({"sync": stop})

        # -- queues: plans for the address side, jobs for the bank side ---------------------------
        job_shape = save_job_shape(target)
        m.submodules.plans = plans = clear(fifo.SyncFIFO(
            width=plan_shape.size, depth=self.DEPTH))
        m.submodules.jobs = jobs = clear(fifo.SyncFIFO(width=job_shape.size, depth=self.DEPTH))
        m.d.comb += [
            self.i.ready.eq(plans.w_rdy & jobs.w_rdy),
            plans.w_data.eq(self.i.payload.plan.as_value()),
            plans.w_en.eq(self.i.valid & self.i.ready),
            jobs.w_data.eq(self.i.payload.job.as_value()),
            jobs.w_en.eq(self.i.valid & self.i.ready),
        ]

        # -- address side -------------------------------------------------------------------------
        m.submodules.bursts = bursts = clear(BurstGenerator())
        m.submodules.issuer = issuer = BurstIssuer()
        m.submodules.lengths = lengths = fifo.SyncFIFO(width=4, depth=OUTSTANDING)
        m.d.comb += [
            bursts.i.payload.as_value().eq(plans.r_data),
            bursts.i.valid.eq(plans.r_rdy), plans.r_en.eq(bursts.i.ready),
            issuer.stop.eq(stop),
            *constant_fields(self.bus, "aw"),
            self.bus.awaddr.eq(issuer.addr), self.bus.awlen.eq(issuer.len),
            self.bus.awvalid.eq(issuer.valid), issuer.ready.eq(self.bus.awready),
            self.empty.eq(issuer.empty),
            lengths.w_en.eq(issuer.taken), lengths.w_data.eq(issuer.i.payload.len),
        ]
        wiring.connect(m, bursts.o, issuer.i)

        # -- responses ----------------------------------------------------------------------------
        answered = Signal()
        m.d.comb += [
            self.bus.bready.eq(1),
            answered.eq(self.bus.bvalid),
            issuer.retire.eq(answered),
            self.finished.eq(answered & issuer.oldest.last & ~self.bus.bresp[1] & ~stop),
        ]
        with m.If(answered & self.bus.bresp[1] & ~stop):
            m.d.sync += [
                self.failed.eq(1),
                self.fault_addr.eq(Cat(Const(0, BEAT_SHIFT), issuer.oldest.beat)),
            ]
        with m.If(self.stop):
            m.d.sync += self.failed.eq(0)

        # -- data: banks, argmax, packer ----------------------------------------------------------
        m.submodules.reader = reader = SaveReader(target)
        m.submodules.packer = packer = Packer(lanes=lanes)
        wiring.connect(m, wiring.flipped(self.read), reader.read)
        word, info = reader.o.payload.data, reader.o.payload.info
        run = packer.i.payload
        m.d.comb += [
            reader.i.payload.as_value().eq(jobs.r_data),
            reader.i.valid.eq(jobs.r_rdy), jobs.r_en.eq(reader.i.ready),
            reader.clear.eq(stop),
        ]
        copied = [
            packer.i.valid.eq(reader.o.valid), reader.o.ready.eq(packer.i.ready),
            run.data.eq(word), run.count.eq(info.count), run.offset.eq(info.offset),
            run.first.eq(info.range_first & info.pixel_first),
            run.last.eq(info.range_last & info.pixel_last),
        ]
        if target.save_argmax:
            m.submodules.argmax = argmax = Argmax(lanes=lanes, info=info.shape())
            best = argmax.o.payload
            m.d.comb += [
                argmax.clear.eq(stop),
                argmax.i.valid.eq(reader.o.valid & info.argmax),
                argmax.i.payload.data.eq(word), argmax.i.payload.count.eq(info.count),
                argmax.i.payload.first.eq(info.pixel_first),
                argmax.i.payload.last.eq(info.pixel_last), argmax.i.payload.info.eq(info),
            ]
            with m.If(argmax.busy | (reader.o.valid & info.argmax)):
                m.d.comb += [
                    packer.i.valid.eq(argmax.o.valid), argmax.o.ready.eq(packer.i.ready),
                    reader.o.ready.eq(argmax.i.ready & info.argmax),
                    run.data.eq(Mux(best.info.largest, best.value, best.index)[:8]),
                    run.count.eq(1), run.offset.eq(best.info.offset),
                    run.first.eq(best.info.range_first), run.last.eq(best.info.range_last),
                ]
            with m.Else():
                m.d.comb += copied
        else:
            m.d.comb += copied

        # -- data channel: beats of the bursts already offered ------------------------------------
        beat = packer.o.payload
        sent = Signal(4)
        held = Signal()                     # offered but not taken: must not change
        go = Signal()
        last = Signal()
        m.d.comb += [
            self.bus.wvalid.eq(lengths.r_rdy & (packer.o.valid | stop)),
            self.bus.wdata.eq(beat.data),
            self.bus.wstrb.eq(Mux(packer.o.valid, beat.strobe, 0)),
            last.eq(sent == lengths.r_data), self.bus.wlast.eq(last),
            go.eq(self.bus.wvalid & self.bus.wready),
            packer.o.ready.eq(lengths.r_rdy & self.bus.wready),
            lengths.r_en.eq(go & last),
            held.eq(self.bus.wvalid & ~self.bus.wready),
            packer.clear.eq(stop & ~(held & packer.o.valid)),
        ]
        with m.If(go):
            m.d.sync += sent.eq(Mux(last, 0, sent + 1))
        return m
