# SPDX-License-Identifier: Apache-2.0
"""CONV write-back: from finished columns to image banks."""

from amaranth.hdl import Array, Const, Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from opendpu_hw.engine.conv_plan import result_shape
from opendpu_hw.memory.ports import ConvWrite


class ConvWriter(wiring.Component):
    """Keep the parameters of CONVs in flight; write each finished column, bank by bank.

    ``capture`` marks the cycle in which a column's sums are complete; in the next one (``shift``)
    and the one after (``finish``) the lanes requantize. Then the column's rows are written: rows
    that share a bank (``stride_out``) one after the other.

    Members
    -------
    push, payload, ready : a CONV starts (``result_shape``)
    capture, shift, finish : ``In(1)``
        See above.
    bias, shift_bias : valid with ``capture``
    shift_cut, shift_act : valid with ``shift``
    act : valid with ``finish``
    results : ``In``
        Lane results [row][lane], valid the cycle after ``finish``, until the next.
    write : ``Out(ConvWrite)``
    completed : ``Out(1)``
        Pulse: the last word of a CONV is being written.
    pending, several : ``Out(4)``
        A bit a bank group: some CONV in flight writes it; more than one does.
    busy : ``Out(1)``
    """

    DEPTH = 4

    def __init__(self, target):
        self._target = target
        lanes, banks = target.output_channel_parallel, target.pixel_parallel
        super().__init__({
            "push": In(1), "payload": In(result_shape(target)), "ready": Out(1),
            "clear": In(1), "capture": In(1), "shift": In(1), "finish": In(1),
            "bias": Out(data.ArrayLayout(signed(8), lanes)), "shift_bias": Out(6),
            "shift_cut": Out(6), "shift_act": Out(4), "act": Out(4),
            "results": In(data.ArrayLayout(data.ArrayLayout(signed(8), lanes), banks)),
            "write": Out(ConvWrite(target)),
            "completed": Out(1), "pending": Out(4), "several": Out(4), "busy": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        target = self._target
        banks = target.pixel_parallel
        abits = ceil_log2(target.bank_depth)
        shape = result_shape(target)

        # -- parameters of CONVs whose columns have not come yet ----------------------------------
        slots = [Signal(shape, name=f"slot{i}") for i in range(self.DEPTH)]
        level = Signal(range(self.DEPTH + 1))
        head = Signal(shape)                       # the CONV whose columns come now
        head_valid = Signal()
        column = Signal(10)
        column_addr = Signal(abits)
        last_column = Signal()
        load = Signal()
        m.d.comb += [
            self.ready.eq(level != self.DEPTH),
            last_column.eq(column == head.length),
            load.eq((level != 0) & (~head_valid | (self.capture & last_column))),
        ]
        write_at = Signal(range(self.DEPTH + 1))
        m.d.comb += write_at.eq(level - load)
        with m.If(load):
            m.d.sync += [head.eq(slots[0]), column.eq(0), column_addr.eq(slots[0].bank_addr_out)]
            m.d.sync += [slots[i].eq(slots[i + 1]) for i in range(self.DEPTH - 1)]
        with m.Elif(self.capture):
            m.d.sync += [column.eq(column + 1),
                         column_addr.eq((column_addr + head.jump_write)[:abits])]
        with m.If(load):
            m.d.sync += head_valid.eq(1)
        with m.Elif(self.capture & last_column):
            m.d.sync += head_valid.eq(0)
        for i in range(self.DEPTH):
            with m.If(self.push & (write_at == i)):
                m.d.sync += slots[i].eq(self.payload)
        m.d.sync += level.eq(level - load + self.push)

        # -- capture: bias; shift: scale; finish: activation --------------------------------------
        shifting = Signal(shape)
        finishing = Signal(shape)
        shifting_last = Signal()
        finishing_last = Signal()
        shifting_addr = Signal(abits)
        finishing_addr = Signal(abits)
        m.d.comb += [
            self.bias.eq(head.bias), self.shift_bias.eq(head.shift_bias),
            self.shift_cut.eq(shifting.shift_cut), self.shift_act.eq(shifting.act),
            self.act.eq(finishing.act),
        ]
        with m.If(self.capture):
            m.d.sync += [shifting.eq(head), shifting_last.eq(last_column),
                         shifting_addr.eq(column_addr)]
        with m.If(self.shift):
            m.d.sync += [finishing.eq(shifting), finishing_last.eq(shifting_last),
                         finishing_addr.eq(shifting_addr)]

        # -- write ---------------------------------------------------------------------------------
        writing = Signal(shape)
        writing_last = Signal()
        writing_addr = Signal(abits)
        active = Signal()
        turn = Signal(4)
        turn_addr = Signal(abits)
        last_turn = Signal()
        m.d.comb += last_turn.eq(turn == writing.stride_out)
        with m.If(active):
            m.d.sync += [turn.eq(turn + 1),
                         turn_addr.eq((turn_addr + writing.jump_write_endl)[:abits])]
            with m.If(last_turn):
                m.d.sync += active.eq(0)
        with m.If(self.finish):
            m.d.sync += [writing.eq(finishing), writing_last.eq(finishing_last),
                         writing_addr.eq(finishing_addr), active.eq(1), turn.eq(0),
                         turn_addr.eq(0)]
        m.d.comb += self.write.group.eq(writing.group_out)
        rows = Array([self.results[p].as_value() for p in range(banks)])
        for b in range(banks):
            row = Signal(signed(10), name=f"row{b}")
            wrapped = Signal(abits, name=f"wrapped{b}")
            m.d.comb += [
                row.eq((writing.first_row[b] + turn)[:10].as_signed()),
                wrapped.eq(sum(Mux(writing.wraps[b][i], writing.wrap_jump << i, 0)
                               for i in range(3))[:abits]),
                self.write.mask[b].eq(active & (row >= 0) & (row <= writing.last_row)),
                self.write.addr[b].eq((writing_addr + turn_addr + wrapped)[:abits]),
                self.write.data[b].eq(rows[row[:ceil_log2(banks)]]),
            ]
        m.d.comb += self.completed.eq(active & last_turn & writing_last)

        # -- what is in flight --------------------------------------------------------------------
        counts = [Signal(4, name=f"pending{g}") for g in range(4)]
        for g, count in enumerate(counts):
            up, down = Signal(name=f"up{g}"), Signal(name=f"down{g}")
            m.d.comb += [up.eq(self.push & (self.payload.group_out == g)),
                         down.eq(self.completed & (writing.group_out == g)),
                         self.pending[g].eq(count != 0), self.several[g].eq(count > 1)]
            m.d.sync += count.eq(count + up - down)
            with m.If(self.clear):
                m.d.sync += count.eq(0)
        m.d.comb += self.busy.eq(self.pending != Const(0, 4))
        with m.If(self.clear):
            m.d.sync += [level.eq(0), head_valid.eq(0), active.eq(0)]
        return m
