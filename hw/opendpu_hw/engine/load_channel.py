# SPDX-License-Identifier: Apache-2.0
"""One of the two halves of LOAD: a read port of the bus and a write port of the banks."""

from amaranth.hdl import Cat, Const, Module, Mux, ResetInserter, Signal, unsigned
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from opendpu_arch.extensions import Extension
from opendpu_hw.bus.axi4 import constant_fields, read_signature
from opendpu_hw.bus.burst import BEAT_SHIFT, BurstGenerator, BurstIssuer, plan_fields
from opendpu_hw.bus.fields import FieldQueue, FieldSkid, FieldStream
from opendpu_hw.datapath.bytes import MASK_BYTES, masks, pieces, shift_down
from opendpu_hw.engine.load_walk import POSITION, WINDOW, LoadWalk
from opendpu_hw.memory.ports import BankWrite

#: Longest pixel, in bytes, that may overlap the next one in one fetched range.
OVERLAP_MAX = 128


def load_job_fields(target):
    """What the bank side needs to know of a LOAD; lengths are raw (less one).

    ``offset`` is the first byte's place in its beat; ``merged`` means the pixels come as one range,
    ``overlap`` that they overlap in it. ``masked`` LOADs (channel augmentation) zero ``skip`` bytes
    of pixel 0, ``jump`` less in each after it, and in the last ``pad_idx + 1`` pixels keep ``tail``
    bytes, ``jump`` less in each after the first of those; with the extension ``scaled``, bytes that
    are not kept become ``value``.
    """
    return {
        "bank_id": 6, "bank_addr": ceil_log2(target.bank_depth), "jump_write": 10,
        "rows": 10, "bytes": 14, "jump": 10, "offset": BEAT_SHIFT,
        "merged": 1, "overlap": 1, "constant": 1, "value": 8,
        "masked": 1, "skip": 5, "pad_idx": 5, "tail": 7}


class LoadChannel(wiring.Component):
    """Fetch the bytes of LOADs and write them to the banks, one word a cycle.

    Bursts are issued ahead, also those of LOADs whose turn has not come. Beats wait in a window of
    :data:`WINDOW` beats, from which any CP adjacent bytes are taken each cycle.

    Parameters
    ----------
    target : :class:`opendpu_arch.target.Target`
        Parallelism and memories.

    Members
    -------
    plan, job : ``In(FieldStream)``
        :data:`opendpu_hw.bus.burst.plan_fields` and :func:`load_job_fields` of LOADs; constant ones
        have no plan.
    bus, write : ``Out(read_signature(128))``, ``Out(BankWrite)``
        The ports.
    finished : ``Out(1)``
        The last word of a LOAD is being written.
    failed, fault_addr : ``Out(1)``, ``Out(40)``
        The oldest unfinished LOAD met a bus error, in the burst at this address: level.
    stop : ``In(1)``
        Drop all work; beats already asked for are taken and dropped.
    empty : ``Out(1)``
        Nothing is outstanding on the bus.
    """

    #: LOADs that can wait in a channel.
    DEPTH = 8

    def __init__(self, target):
        self._target = target
        super().__init__({
            "plan": In(FieldStream(plan_fields)), "job": In(FieldStream(load_job_fields(target))),
            "bus": Out(read_signature(128)), "write": Out(BankWrite(target)),
            "finished": Out(1), "failed": Out(1), "fault_addr": Out(40),
            "stop": In(1), "empty": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        stop = Signal()
        error = Signal()
        m.d.comb += stop.eq(self.stop | self.failed)
        issuer, jobs = self._address_side(m, stop, error)
        walk = LoadWalk(self._target, load_job_fields(self._target))
        window = self._window(m, walk, stop, error, issuer)
        m.submodules.out = out = FieldSkid({
            "data": len(self.write.data), "bank_id": 6, "addr": len(self.write.addr), "ending": 1})
        self._find_word(m, walk, window, error, out)
        walk.go_on(m)
        walk.begin(m, jobs.o)
        self._write_word(m, walk, window, out)
        m.d.comb += out.clear.eq(stop)
        with m.If(stop):
            walk.clear(m)
            m.d.sync += [window.put.eq(0), window.newest.eq(window.newest.init), error.eq(0)]
        with m.If(self.stop):
            m.d.sync += self.failed.eq(0)
        return m

    def _address_side(self, m, stop, error):
        """Queue plans for the address side, jobs for the bank side; issue bursts."""
        m.submodules.plans = plans = FieldQueue(plan_fields, depth=self.DEPTH)
        m.submodules.jobs = jobs = FieldQueue(load_job_fields(self._target), depth=self.DEPTH)
        m.submodules.bursts = bursts = ResetInserter({"sync": stop})(BurstGenerator())
        m.submodules.issuer = issuer = BurstIssuer()
        wiring.connect(m, wiring.flipped(self.plan), plans.i)
        wiring.connect(m, wiring.flipped(self.job), jobs.i)
        wiring.connect(m, plans.o, bursts.i)
        wiring.connect(m, bursts.o, issuer.i)
        m.d.comb += [
            plans.clear.eq(stop), jobs.clear.eq(stop),
            issuer.stop.eq(error),
            *constant_fields(self.bus, "ar"),
            self.bus.araddr.eq(issuer.addr), self.bus.arlen.eq(issuer.len),
            self.bus.arvalid.eq(issuer.valid), issuer.ready.eq(self.bus.arready),
            # A burst may still be taken in the first cycle of ``stop``, none later.
            self.empty.eq(issuer.empty & ~bursts.o.valid),
        ]
        return issuer, jobs

    def _window(self, m, walk, stop, error, issuer):
        """Keep the beats that come until the walk has made words of them."""
        m.submodules.window = beats = memory.Memory(shape=unsigned(128), depth=WINDOW, init=[])
        put_port = beats.write_port()
        low_port, high_port = beats.read_port(domain="comb"), beats.read_port(domain="comb")
        window = _Window(low_port.data, high_port.data)
        put_next = Signal(POSITION)
        keep = Signal(POSITION)             # number of the oldest beat still needed
        used = Signal(POSITION)             # negative while the next byte is beyond a gap
        room, accept = Signal(), Signal()
        m.d.comb += [
            keep.eq(Mux(walk.job.overlap, walk.pixel[BEAT_SHIFT:], walk.beat)),
            used.eq(window.put - keep),
            room.eq(used[-1] | ~used[ceil_log2(WINDOW):].any()),
            self.bus.rready.eq(stop | room),
            accept.eq(self.bus.rvalid & self.bus.rready),
            issuer.retire.eq(accept & self.bus.rlast),
            put_port.addr.eq(window.put), put_port.data.eq(self.bus.rdata), put_port.en.eq(accept),
            put_next.eq(window.put + 1),
            low_port.addr.eq(walk.beat), high_port.addr.eq(walk.beat_1),
        ]
        with m.If(accept):
            m.d.sync += [window.put.eq(put_next), window.newest.eq(window.put)]
            with m.If(self.bus.rresp[1] & ~error & ~stop):
                m.d.sync += [
                    error.eq(1), window.error_beat.eq(window.put),
                    window.error_before.eq(window.newest),
                    self.fault_addr.eq(Cat(Const(0, BEAT_SHIFT), issuer.oldest_beat)),
                ]
        return window

    def _find_word(self, m, walk, window, error, out):
        """Decide whether the next word is made: its beats have come, and are whole."""
        job = walk.job
        ahead = Signal(POSITION + 1)        # beats that have come after the word's last one
        ready, bad, advance = Signal(), Signal(), Signal()
        # newest - (beat + two_beats), of which only the sign matters: its last term is a carry.
        m.d.comb += [
            ahead.eq(Cat(1, window.newest) + Cat(~walk.two_beats, ~walk.beat)),
            ready.eq(job.constant | ~ahead[-1]),
            bad.eq(error & ~job.constant
                   & ((window.error_beat == walk.beat)
                      | (walk.two_beats & (window.error_before == walk.beat)))),
            advance.eq(out.i.ready),
            walk.step.eq(walk.running & ready & ~bad & advance),
        ]
        with m.If(walk.running & ready & bad & ~self.write.valid):
            m.d.sync += self.failed.eq(1)

    def _write_word(self, m, walk, window, out):
        """Shift the word's bytes down, put others where none are kept, and write it."""
        job = walk.job
        halves = -(-self._target.channel_parallel // MASK_BYTES)
        source = pieces(window.low, 4) + pieces(window.high, 4)
        word = shift_down(m, source, walk.here[:BEAT_SHIFT], 2 * halves, name="word")
        kept = Signal(5)
        m.d.comb += kept.eq(Mux(walk.limit[4:].any(), 16, walk.limit[:4]))
        keep_masks = masks(m, kept, halves, name="keep")
        skip_masks = masks(m, walk.skip, halves, name="skip")
        padded = Signal()
        m.d.comb += padded.eq(job.masked & ~job.constant)
        result = []
        for i in range(halves):
            half = Signal(64, name=f"half_{i}")
            value = Mux(
                job.constant, job.value.replicate(MASK_BYTES), Cat(word[2 * i:2 * i + 2]))
            kept_bytes = keep_masks[i] & ~skip_masks[i]
            m.d.comb += half.eq(value & kept_bytes)
            if Extension.SCALED in self._target.extensions:
                fill = job.value.replicate(MASK_BYTES) & padded.replicate(8 * MASK_BYTES)
                m.d.comb += half.eq((value & kept_bytes) | (fill & ~kept_bytes))
            result.append(half)
        m.d.comb += [
            out.i.valid.eq(walk.step), out.i.data.eq(Cat(result)), out.i.bank_id.eq(job.bank_id),
            out.i.addr.eq(walk.addr), out.i.ending.eq(walk.job_end),
            self.write.valid.eq(out.o.valid), out.o.ready.eq(self.write.ready),
            *(getattr(self.write, n).eq(getattr(out.o, n)) for n in ("data", "bank_id", "addr")),
            self.finished.eq(self.write.valid & self.write.ready & out.o.ending),
        ]


class _Window:
    """Beats that wait; those of the next word are ``low`` and ``high``."""

    def __init__(self, low, high):
        self.low, self.high = low, high
        self.put = Signal(POSITION)             # number of the next beat, modulo 4·WINDOW
        self.newest = Signal(POSITION, init=-1 % (1 << POSITION))       # the one before it
        self.error_beat = Signal(POSITION)
        self.error_before = Signal(POSITION)    # the beat before it
