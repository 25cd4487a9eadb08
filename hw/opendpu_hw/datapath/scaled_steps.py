# SPDX-License-Identifier: Apache-2.0
"""Columns through fixed-point multipliers (extension ``scaled``): when what happens."""

from amaranth.hdl import Cat, Module, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from opendpu_arch import latency
from opendpu_arch.extensions import Extension
from opendpu_hw.memory.record_ram import (
    COMMON_SHAPE,
    CommonRam,
    RecordWrite,
    record_bits,
    shifts_shape,
)
from opendpu_hw.memory.table_ram import SELECT_BITS

#: Stages of :class:`opendpu_hw.datapath.fixed_point.FixedPoint` that have other parameters.
_ROUND, _SHIFT, _MOVE, _LIMIT = 3, 6, 8, 9


def steps_shape(target, pixels):
    """Return the layout of what lanes are told; ``pixels`` are those of a column.

    ``read``, ``record``: read the record of a column, and take its sums, but for late ones.
    ``late`` is ``read`` a cycle later: take those, and the parameters; ``multiply`` two cycles
    after that, take the multiplier. ``select``: which sum is multiplied, late ones last.
    ``gather``: another result is there (or, with ``table``, its entry), with ``finish`` the
    column's last one. ``skip`` is CONV's: nothing of a column without multipliers is to be kept.
    """
    return data.StructLayout({
        "read": 1, "record": record_bits(target), "late": 1, "multiply": 1,
        "select": range(pixels), "gather": 1, "finish": 1, "skip": 1,
        "once": 1, "zero": signed(8), "low": signed(8), "high": signed(8),
        **({"look_up": 1, "table": SELECT_BITS} if Extension.TABLE in target.extensions else {}),
    })


class ScaledSteps(wiring.Component):
    """One multiplier a lane: the pixels of a column take turns.

    Columns come at least as many cycles apart as they have pixels, and two, and one more with a
    table.

    Parameters
    ----------
    target : :class:`opendpu_arch.target.Target`
        Gives the lanes.
    pixels : :class:`int`
        Pixels of a column.

    Members
    -------
    captured, scaled : ``In(1)``
        A column's sums are complete; it needs multipliers.
    record, table : ``In``
        Valid with ``captured``.
    write : ``In(RecordWrite)``
        SCALE.
    steps : ``Out(steps_shape)``
        For the lanes.
    shifts : ``Out(ArrayLayout(5, OCP))``
        For each lane's multiplier.
    begin : ``Out(1)``
        Pulse, a cycle before ``finish`` of ``steps``.
    busy : ``Out(1)``
        Some column is under way.
    """

    def __init__(self, target, *, pixels):
        self._target, self._pixels = target, pixels
        self._tables = Extension.TABLE in target.extensions
        super().__init__({
            "captured": In(1), "scaled": In(1), "record": In(record_bits(target)),
            **({"table": In(SELECT_BITS)} if self._tables else {}),
            "write": In(RecordWrite(target)),
            "steps": Out(steps_shape(target, pixels)),
            "shifts": Out(shifts_shape(target)),
            "begin": Out(1), "busy": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        steps, first = self.steps, latency.RECORD_READ
        # Pulse n: a column's sums were complete n cycles ago.
        pulses = Signal(first + _LIMIT + 1)
        pulse = Signal(first + _LIMIT + 2)
        m.d.comb += pulse.eq(Cat(self.captured & self.scaled, pulses))
        m.d.sync += pulses.eq(pulse)

        m.submodules.common_ram = common = CommonRam(self._target)
        wiring.connect(m, wiring.flipped(self.write), common.write)
        m.d.comb += [
            common.en.eq(pulse[0]), common.record.eq(self.record),
            steps.read.eq(pulse[0]), steps.record.eq(self.record),
            steps.late.eq(pulse[1]), steps.multiply.eq(pulse[first + 1]),
        ]
        table = self._carry_parameters(m, pulse, common)
        going, last = self._take_turns(m, pulse)
        gone, lasted = (Signal(latency.FIXED_POINT + 1, name=name) for name in ("gone", "lasted"))
        # Whether some are under way goes far: it is found a cycle before.
        m.d.sync += [
            gone.eq(Cat(going, gone)), lasted.eq(Cat(last, lasted)),
            self.busy.eq(pulse[:-1].any() | going | gone[:-1].any()),
        ]
        self._gather(m, gone, lasted, table)
        return m

    def _carry_parameters(self, m, pulse, common):
        """Take the parameters of a column along; return its table's number when results come.

        Each hop keeps them until the next column's, two cycles at least.
        """
        steps, first = self.steps, latency.RECORD_READ
        carried = data.StructLayout({
            "common": COMMON_SHAPE,
            **({"table": SELECT_BITS} if self._tables else {})})
        table = self._carried_table(m, pulse)
        here = Signal(carried)
        m.d.comb += here.common.eq(common.common)
        if self._tables:
            m.d.comb += here.table.eq(table)
        kept = {}
        # A hop at pulse n is there from the cycle of pulse n + 1 on.
        for n in (1, 3, 5, 7, first + _MOVE - 1, first + _LIMIT - 1, first + _LIMIT):
            later = Signal(carried, name=f"carried{n}", reset_less=True)
            with m.If(pulse[n]):
                m.d.sync += later.eq(here)
            kept[n + 1] = here = later
        shifts = self._carried_shifts(m, pulse, common.shifts)
        # Rounding is asked for between two hops.
        once = Signal(reset_less=True)
        with m.If(pulse[first + _ROUND - 1]):
            m.d.sync += once.eq(kept[first + _ROUND - 1].common.once)
        m.d.comb += [
            steps.once.eq(once),
            self.shifts.eq(shifts),
            steps.zero.eq(kept[first + _MOVE].common.zero),
            steps.low.eq(kept[first + _LIMIT].common.low),
            steps.high.eq(kept[first + _LIMIT].common.high),
        ]
        return kept[first + _LIMIT + 1].table if self._tables else None

    def _carried_table(self, m, pulse):
        """Return the table of the column whose record is there with pulse 1."""
        if not self._tables:
            return None
        table = Signal(SELECT_BITS, name="asked_table", reset_less=True)
        with m.If(pulse[0]):
            m.d.sync += table.eq(self.table)
        return table

    def _carried_shifts(self, m, pulse, shifts):
        """Return the shifts of the column that is about to be shifted."""
        first = latency.RECORD_READ
        for n in (first, 4, 6, first + _SHIFT - 1):
            later = Signal(shifts_shape(self._target), name=f"shifts{n}", reset_less=True)
            with m.If(pulse[n]):
                m.d.sync += later.eq(shifts)
            shifts = later
        return shifts

    def _take_turns(self, m, pulse):
        """Multiply a column's pixels one after the other; return whether one is, and the last."""
        turn = Signal(range(self._pixels))
        going = Signal()
        last = Signal()
        m.d.comb += [self.steps.select.eq(turn), last.eq(going & (turn == self._pixels - 1))]
        with m.If(pulse[latency.RECORD_READ - 1]):
            m.d.sync += [turn.eq(0), going.eq(1)]
        with m.Elif(going):
            m.d.sync += [turn.eq(turn + 1), going.eq(~last)]
        return going, last

    def _gather(self, m, gone, lasted, table):
        """Say when a result is there; with a table, when its entry is.

        Bit n of ``gone`` and ``lasted``: a pixel, a column's last one was multiplied n + 1 cycles
        ago.
        """
        steps, due = self.steps, latency.FIXED_POINT - 1        # bit: the result is there
        if not self._tables:
            m.d.comb += [
                steps.gather.eq(gone[due]), steps.finish.eq(lasted[due]),
                self.begin.eq(lasted[due - 1]),
            ]
            return
        tabled = table != 0

        def with_table(name, pulse):
            """Delay a pulse if the column has a table; the next one's may be known by then."""
            later = Signal(name=f"{name}_later")
            m.d.sync += later.eq(pulse & tabled)
            return later | (pulse & ~tabled)

        m.d.comb += [
            steps.look_up.eq(gone[due] & tabled), steps.table.eq(table),
            steps.gather.eq(with_table("gather", gone[due])),
            steps.finish.eq(with_table("finish", lasted[due])),
            self.begin.eq(with_table("begin", lasted[due - 1])),
        ]
