# SPDX-License-Identifier: Apache-2.0
"""Results of the MISC engine into the banks."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import fifo, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from opendpu_hw.bus.fields import FieldQueue
from opendpu_hw.datapath.multiplexer import choose
from opendpu_hw.engine import misc_plan as plan
from opendpu_hw.memory.ports import RowWrite

_JOBS = 4


class MiscWriter(wiring.Component):
    """Queue of results and of jobs, and the walk over the outputs.

    A result is PP_alu rows of CP channels. Rows that share a bank (``stride_out`` above 1) take
    turns; otherwise a result is written in one transfer.

    Parameters
    ----------
    target : :class:`opendpu_arch.target.Target`
        Parallelism and memories.
    results : :class:`int`
        Depth of the queue of results.

    Members
    -------
    job : ``In(stream.Signature(write_shape))``
        Where results go.
    result_valid, result : ``In(1)``, ``In(PP_alu * CP * 8)``
        A result, never refused: whoever makes it counts ``result_taken``.
    result_taken : ``Out(1)``
        A result has left the queue.
    write : ``Out(RowWrite)``
        Image banks.
    job_written : ``Out(1)``
        A job is written.
    done : ``Out(1)``
        That was an instruction's last job.
    """

    def __init__(self, target, *, results):
        self._target, self._results = target, results
        width = 8 * target.channel_parallel * target.alu_pixel_parallel
        super().__init__({
            "job": In(stream.Signature(plan.write_shape(target))),
            "result_valid": In(1), "result": In(width), "result_taken": Out(1),
            "write": Out(RowWrite(target)), "job_written": Out(1), "done": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        target = self._target
        shape = plan.write_shape(target)
        m.submodules.jobs = jobs = FieldQueue({"job": shape.size}, depth=_JOBS)
        m.submodules.results = results = fifo.SyncFIFO(
            width=len(self.result), depth=self._results)
        m.d.comb += [
            jobs.i.job.eq(self.job.payload), jobs.i.valid.eq(self.job.valid),
            self.job.ready.eq(jobs.i.ready),
            results.w_data.eq(self.result), results.w_en.eq(self.result_valid),
        ]
        p = Signal(shape)
        m.d.comb += p.eq(jobs.o.job)
        go, last, turn, offset = self._walk(m, p, jobs.o, results)

        w_last = Signal()
        w_final = Signal()
        mask = self._write_rows(m, p, go, turn, offset, results.r_data)
        with m.If(go):
            m.d.sync += [self.write.mask.eq(mask), self.write.group.eq(p.group),
                         w_last.eq(last), w_final.eq(last & p.final)]
        with m.If(self.write.valid & self.write.ready):
            m.d.sync += [
                self.job_written.eq(w_last),
                self.done.eq(w_final),
            ]
        with m.Else():
            m.d.sync += [self.job_written.eq(0), self.done.eq(0)]
        return m

    def _walk(self, m, p, job, results):
        """Walk over the outputs of a job: groups, columns, turns of rows that share a bank.

        Returns
        -------
        go, last : ``Signal()``
            Rows go to the banks; the last ones of the job.
        turn, offset : ``Signal``
            Which rows, and how far they are from the first column's of the first group.
        """
        a = plan.address_bits(self._target)
        column = Signal(11)
        group = Signal(8)
        turn = Signal(3)
        column_offset = Signal(a)
        go = Signal()
        free = Signal()
        last_turn = Signal()
        last = Signal()
        m.d.comb += [
            free.eq(~self.write.valid | self.write.ready),
            go.eq(job.valid & results.r_rdy & free),
            last_turn.eq(turn == p.turns_1),
            last.eq(last_turn & (column == p.length_1) & (group == p.groups_1)),
            results.r_en.eq(go & last_turn), self.result_taken.eq(go & last_turn),
            job.ready.eq(go & last),
        ]
        with m.If(go):
            m.d.sync += turn.eq(Mux(last_turn, 0, turn + 1))
            with m.If(last_turn):
                with m.If(column != p.length_1):
                    m.d.sync += [column.eq(column + 1),
                                 column_offset.eq((column_offset + p.jump)[:a])]
                with m.Else():
                    m.d.sync += [column.eq(0), column_offset.eq(0),
                                 group.eq(Mux(last, 0, group + 1))]
        with m.If(free):
            m.d.sync += self.write.valid.eq(go)
        offset = Signal(a)
        m.d.comb += offset.eq(column_offset + group)
        return go, last, turn, offset

    def _write_rows(self, m, p, go, turn, offset, result):
        """Register address and word of each bank; return which banks rows come to, a bit each."""
        banks, rows = self._target.pixel_parallel, self._target.alu_pixel_parallel
        a, word = plan.address_bits(self._target), 8 * self._target.channel_parallel
        mask = Signal(banks)
        addresses = []
        for h in range(rows):
            total = Signal(a, name=f"row_addr{h}")
            m.d.comb += total.eq(p.addr[h] + offset)
            addresses.append(total)
        words = [result[h * word:(h + 1) * word] for h in range(rows)]

        def rows_at(number, bits):
            """Return, a bit a row, which rows come now to banks whose number ends so."""
            return [(p.bank[h][:bits] == number) & (p.turn[h] == turn)
                    & (p.rows_1 >= h if h else 1) for h in range(rows)]

        m.d.comb += mask.eq(Cat(Cat(rows_at(b, len(p.bank[0]))).any() for b in range(banks)))
        # The banks that rows come to follow each other, so of those that are `apart` at most one
        # has a row now: they share its registers.
        apart = min(banks, 1 << ceil_log2(rows))
        for k in range(apart):
            here = rows_at(k, ceil_log2(apart))
            # One row at most is here: its number in binary takes fewer LUTs than a bit each.
            row = Cat(Cat(is_here for h, is_here in enumerate(here) if h >> bit & 1).any()
                      for bit in range(ceil_log2(rows)))
            row_here = Signal(len(row), name=f"row{k}")
            w_addr = Signal(a, name=f"w_addr{k}", reset_less=True)
            w_data = Signal(word, name=f"w_data{k}", reset_less=True)
            m.d.comb += row_here.eq(row)
            with m.If(go & Cat(here).any()):
                m.d.sync += [
                    w_addr.eq(choose(row_here, addresses)), w_data.eq(choose(row_here, words)),
                ]
            for b in range(k, banks, apart):
                m.d.comb += [self.write.addr[b].eq(w_addr), self.write.data[b].eq(w_data)]
        return mask
