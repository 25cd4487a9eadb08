# SPDX-License-Identifier: Apache-2.0
"""CONV write-back: from finished columns to image banks."""

from amaranth.hdl import Module, Mux, ResetInserter, Signal, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from opendpu_arch import latency
from opendpu_arch.extensions import Extension
from opendpu_arch.isa import ActType
from opendpu_hw.datapath.multiplexer import choose
from opendpu_hw.datapath.narrow_product import narrow_product
from opendpu_hw.datapath.requantize import CUT_SHAPE, scale_of, scale_shape
from opendpu_hw.datapath.scaled_steps import ScaledSteps, steps_shape
from opendpu_hw.engine.conv_in_flight import count_in_flight
from opendpu_hw.engine.conv_shapes import result_shape, split_result_shape
from opendpu_hw.memory.ports import ConvWrite
from opendpu_hw.memory.record_ram import RecordWrite, shifts_shape
from opendpu_hw.memory.table_ram import SELECT_BITS

#: Ways of a multiplexer of one LUT of six inputs a bit.
_WAYS = 4


class ConvWriter(wiring.Component):
    """Keep the parameters of CONVs in flight; write each finished column, bank by bank.

    Bit 0 of ``column`` marks the cycle in which a column's sums are complete, bit ``n`` the one
    ``n`` cycles later; in between the lanes requantize. After the last bit the column's rows are
    written: rows that share a bank (``stride_out``) one after the other.

    Members
    -------
    push, payload, ready : a CONV starts (``result_shape``)
    column : ``In(8)``
        See above.
    bias, shift_bias, next_leaky : valid with ``prepare``, for the columns after that cycle
    leaky, scale, act : valid with bits 1 and 2, with bits 2 and 3, and with bits 5 and 6, of
        ``column``
    results : ``In``
        Lane results [row][lane], from the cycle after the last bit of ``column``, until the next.
    write : ``Out(ConvWrite)``
    completed : ``Out(1)``
        Pulse: the last word of a CONV is written :data:`opendpu_arch.latency.CONV_DONE` cycles
        later.
    pending, several : ``Out(4)``
        A bit a bank group: some CONV in flight writes it; more than one does. A CONV counts until
        :data:`opendpu_arch.latency.CONV_READABLE` cycles before its last write.
    table, late : ``Out(4)``, ``Out(1)``
        With the extension ``table``: what the column goes through, valid with bits 6 and 7 of
        ``column``, and a pulse a cycle after bit 7 if it does; it is written that cycle later then.
    shifts, cut : ``Out(ArrayLayout(8, OCP))``, ``Out(CUT_SHAPE)``
        With the extension ``channel``: the lanes' shifts, valid with ``prepare``; what they add to,
        valid with bit 1 of ``column``. Lanes make ``scale`` themselves then.
    records, steps, fixed_shifts : ``In(RecordWrite)``, ``Out(steps_shape)``, ``Out``
        With the extension ``scaled``: SCALE, and what :class:`ScaledSteps` tells lanes. Columns
        with multipliers are written :func:`opendpu_arch.latency.conv_scaled` cycles later.
    scaling : ``Out(1)``
        Some column is on its way through the multipliers.
    """

    DEPTH = latency.CONV_QUEUE
    _SCALED_COLUMNS = 8     # more than there are between their place and their write
    _WRITES = 16            # more than there are CONVs between their start and their first write

    def __init__(self, target):
        self._target = target
        self._tables = Extension.TABLE in target.extensions
        self._channels = Extension.CHANNEL in target.extensions
        self._scaled = Extension.SCALED in target.extensions
        lanes, banks = target.output_channel_parallel, target.pixel_parallel
        super().__init__({
            "push": In(1), "payload": In(result_shape(target)), "ready": Out(1),
            "clear": In(1), "column": In(latency.CONV_WRITE),
            "bias": Out(data.ArrayLayout(signed(8), lanes)), "shift_bias": Out(6),
            "prepare": Out(1), "next_leaky": Out(1), "leaky": Out(1), "scale": Out(scale_shape),
            "act": Out(4),
            "results": In(data.ArrayLayout(data.ArrayLayout(signed(8), lanes), banks)),
            "write": Out(ConvWrite(target)),
            "completed": Out(1), "pending": Out(4), "several": Out(4),
            **({"table": Out(SELECT_BITS), "late": Out(1)} if self._tables else {}),
            **({"shifts": Out(data.ArrayLayout(unsigned(8), lanes)), "cut": Out(CUT_SHAPE)}
               if self._channels else {}),
            **({"records": In(RecordWrite(target)), "steps": Out(steps_shape(target, banks)),
                "fixed_shifts": Out(shifts_shape(target)), "scaling": Out(1)}
               if self._scaled else {}),
        })

    def elaborate(self, platform):
        m = Module()
        sum_shape, write_shape = split_result_shape(self._target)
        sums, writes = self._queues(m, sum_shape, write_shape)
        captured = self.column[0]
        head, head_valid, column, column_addr, last_column = self._follow_columns(
            m, sums, sum_shape)
        self._scales(m, captured, head)
        this = self._places(m, captured, column, column_addr)
        begin = self.column[-2]
        if self._tables:
            begin = self._through_table(m, head)
        if self._scaled:
            begin, this = self._through_multipliers(m, head, begin, this)
        active, rows = self._write(m, writes, write_shape, begin, this)
        self._distribute(m, rows)
        m.d.comb += self.completed.eq(count_in_flight(
            m, self, self._target, captured & last_column, head))
        with m.If(self.clear):
            m.d.sync += [head_valid.eq(0), active.eq(0), self.write.mask.eq(0)]
        return m

    def _queues(self, m, sum_shape, write_shape):
        """Return queues of the parameters of CONVs not summed yet, and of those not written yet."""
        m.submodules.sums = sums = ResetInserter(self.clear)(
            SyncFIFO(width=sum_shape.size, depth=self.DEPTH))
        m.submodules.writes = writes = ResetInserter(self.clear)(
            SyncFIFO(width=write_shape.size, depth=self._WRITES))
        for queue, shape in ((sums, sum_shape), (writes, write_shape)):
            given = Signal(shape)
            m.d.comb += [given[name].eq(self.payload[name]) for name in shape.members]
            m.d.comb += [queue.w_data.eq(given), queue.w_en.eq(self.push)]
        m.d.comb += self.ready.eq(sums.w_rdy)
        return sums, writes

    def _follow_columns(self, m, sums, sum_shape):
        """Return the CONV whose columns come now, whether there is one, the column and its place.

        The last value: whether the column is the CONV's last one.
        """
        abits = ceil_log2(self._target.bank_depth)
        captured = self.column[0]
        head = Signal(sum_shape, reset_less=True)
        coming = Signal(sum_shape)
        head_valid = Signal()
        column = Signal(10)
        column_addr = Signal(abits)
        last_column = Signal()
        load = Signal()
        m.d.comb += [
            coming.eq(sums.r_data), sums.r_en.eq(load),
            last_column.eq(column == head.length),
            load.eq(sums.r_rdy & (~head_valid | (captured & last_column))),
        ]
        m.d.sync += self.prepare.eq(load)
        with m.If(load):
            m.d.sync += [head.eq(coming), column.eq(0), column_addr.eq(coming.bank_addr_out),
                         head_valid.eq(1)]
        with m.Elif(captured):
            m.d.sync += [column.eq(column + 1), head_valid.eq(~last_column),
                         column_addr.eq((column_addr + head.jump_write)[:abits])]
        m.d.comb += [self.bias.eq(head.bias), self.shift_bias.eq(head.shift_bias),
                     self.next_leaky.eq(head.act == ActType.LEAKYRELU)]
        return head, head_valid, column, column_addr, last_column

    def _scales(self, m, captured, head):
        """Take along with a column what lanes are told."""
        scale = Signal(scale_shape, reset_less=True)
        act = [Signal(4, name=f"act{n}", reset_less=True) for n in range(1, 6)]
        with m.If(captured):
            m.d.sync += [scale.eq(scale_of(head.shift_cut, head.act)), act[0].eq(head.act)]
        m.d.comb += self.leaky.eq(scale.leaky)
        with m.If(self.column[1]):
            m.d.sync += self.scale.eq(scale)
        if self._channels:
            m.d.comb += self.shifts.eq(head.shifts)
            with m.If(captured):
                m.d.sync += [self.cut.shift_cut.eq(head.shift_cut), self.cut.act.eq(head.act)]
        for n in range(1, 5):
            with m.If(self.column[n]):
                m.d.sync += act[n].eq(act[n - 1])
        m.d.comb += self.act.eq(act[-1])

    def _places(self, m, captured, column, column_addr):
        """Take its place along with a column; return it a cycle before its results are there."""
        abits = ceil_log2(self._target.bank_depth)
        place = data.StructLayout({"addr": abits, "first": 1})
        places = [Signal(place, name=f"place{n}", reset_less=True)
                  for n in range(1, latency.CONV_WRITE - 1)]
        with m.If(captured):
            m.d.sync += [places[0].addr.eq(column_addr), places[0].first.eq(column == 0)]
        for n in range(1, latency.CONV_WRITE - 2):
            with m.If(self.column[n]):
                m.d.sync += places[n].eq(places[n - 1])
        return places[-1]

    def _write(self, m, writes, write_shape, begin, this):
        """Say where the column in ``this`` goes, from a cycle before its results are there on.

        Return whether a column is being written, and the row that each bank gets.
        """
        abits = ceil_log2(self._target.bank_depth)
        writing = Signal(write_shape, reset_less=True)
        next_writing = Signal(write_shape)
        writing_addr = Signal(abits)
        active = Signal()
        turn = Signal(4)
        turn_addr = Signal(abits)
        last_turn = Signal()
        m.d.comb += [
            next_writing.eq(writes.r_data), writes.r_en.eq(begin & this.first),
            last_turn.eq(turn == writing.stride_out),
        ]
        with m.If(active):
            m.d.sync += [turn.eq(turn + 1),
                         turn_addr.eq((turn_addr + writing.jump_write_endl)[:abits])]
            with m.If(last_turn):
                m.d.sync += active.eq(0)
        with m.If(begin):
            m.d.sync += [writing_addr.eq(this.addr), active.eq(1),
                         turn.eq(0), turn_addr.eq(0)]
            with m.If(this.first):
                m.d.sync += writing.eq(next_writing)
        m.d.sync += self.write.group.eq(writing.group_out)
        rows = [Signal(signed(10), name=f"row{b}") for b in range(self._target.pixel_parallel)]
        for b, row in enumerate(rows):
            wrapped = Signal(abits, name=f"wrapped{b}")
            m.d.comb += [
                row.eq((writing.first_row[b] + turn)[:10].as_signed()),
                wrapped.eq(narrow_product(writing.wrap_jump, writing.wraps[b])[:abits]),
            ]
            m.d.sync += [
                self.write.mask[b].eq(active & (row >= 0) & (row <= writing.last_row)),
                self.write.addr[b].eq((writing_addr + turn_addr + wrapped)[:abits]),
            ]
        return active, rows

    def _distribute(self, m, rows):
        """Bring every bank the results of a row, a cycle later; ``rows`` has one for each bank.

        The row of a bank is as many further, in a ring, as its neighbours' rows from them, or rows
        share banks, and then at most half of the banks, which follow each other, have one. So of
        two banks that are half the ring apart only one has a row, or both are as far from theirs:
        multiplexers that choose among half of the rows serve both.
        """
        results = [self.results[p].as_value() for p in range(len(rows))]
        bits, count = ceil_log2(len(rows)), len(rows)
        half = min(count, _WAYS)
        near_bits = ceil_log2(half)
        distance = [(row[:bits] - b)[:bits] for b, row in enumerate(rows)]
        near = [Signal(near_bits, name=f"near{b}", reset_less=True) for b in range(half)]
        for b, chosen in enumerate(near):
            value = distance[b][:near_bits]
            if count > half:
                value = Mux(rows[b][bits:].any(), distance[b + half][:near_bits], value)
            m.d.sync += chosen.eq(value)
        for b in range(count):
            m.d.comb += self.write.data[b].eq(
                choose(near[b % half], [results[(b + n) % count] for n in range(half)]))
            if count > half:
                m.d.sync += self.write.far[b].eq(distance[b][-1])

    def _through_table(self, m, head):
        """Take the table along with a column; return when to write it."""
        previous = Mux(head.scaled, 0, head.table) if self._scaled else head.table
        for n in range(latency.CONV_WRITE - 2):
            table = Signal(SELECT_BITS, name=f"table{n + 1}", reset_less=True)
            with m.If(self.column[n]):
                m.d.sync += table.eq(previous)
            previous = table
        looked_up = self.column[-1] & (previous != 0)
        m.d.comb += self.table.eq(previous)
        m.d.sync += self.late.eq(looked_up)
        begin = Signal()
        m.d.comb += begin.eq(looked_up | (self.column[-2] & (previous == 0)))
        return begin

    def _through_multipliers(self, m, head, plain_begin, plain_place):
        """Send columns through multipliers; return when and where to write the next column."""
        scaled = ResetInserter(self.clear)(
            ScaledSteps(self._target, pixels=self._target.pixel_parallel))
        m.submodules.scaled_steps = scaled
        wiring.connect(m, wiring.flipped(self.records), scaled.write)
        m.submodules.places = places = ResetInserter(self.clear)(
            SyncFIFO(width=plain_place.shape().size, depth=self._SCALED_COLUMNS))
        kinds = [head.scaled]           # n: whether the column at bit n is scaled
        for n in range(latency.CONV_WRITE - 1):
            kind = Signal(name=f"scaled{n + 1}", reset_less=True)
            with m.If(self.column[n]):
                m.d.sync += kind.eq(kinds[-1])
            kinds.append(kind)
        due = latency.CONV_WRITE - 2    # bit with which the place is there
        begin = Signal()
        place = Signal.like(plain_place)
        m.d.comb += [
            scaled.captured.eq(self.column[0]), scaled.scaled.eq(head.scaled),
            scaled.record.eq(head.record),
            *([scaled.table.eq(head.table)] if self._tables else []),
            self.steps.eq(scaled.steps), self.steps.skip.eq(kinds[-1]),
            self.fixed_shifts.eq(scaled.shifts), self.scaling.eq(scaled.busy | places.r_rdy),
            places.w_en.eq(self.column[due] & kinds[due]), places.w_data.eq(plain_place),
            places.r_en.eq(scaled.begin),
            begin.eq(scaled.begin | (plain_begin & ~self._due_is_scaled(kinds))),
            place.eq(Mux(scaled.begin, places.r_data, plain_place)),
        ]
        return begin, place

    def _due_is_scaled(self, kinds):
        """Return whether the column whose place is there, or whose table's entry, has multipliers.

        It must not begin as one without them would.
        """
        due = latency.CONV_WRITE - 2
        return Mux(self.column[due], kinds[due], kinds[-1]) if self._tables else kinds[due]
