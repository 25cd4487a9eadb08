# SPDX-License-Identifier: Apache-2.0
"""The order in which the MISC engine reads weights: that of the walk over the inputs."""

from amaranth.hdl import Signal, signed

from opendpu_hw.engine import misc_plan as plan


class WeightWalk:
    """Registers of which word of weights is read next; :meth:`advance` changes them.

    Loops, outermost first: channel groups, columns (one only where the job is ``cached``), kernel
    columns, phases, and the rows of a phase, ``stride_h`` apart. A step takes up to ``taps`` words
    of one phase; they are an entry of the ring.

    Attributes
    ----------
    job : ``Signal(fetch_shape)``
        The job whose weights are read.
    weights_left, at : ``Signal()``, ``Signal(address_bits)``
        Whether there is another word, and its address.
    tap : ``Signal(range(taps))``
        Its place in its entry; counted by whoever reads the words, cleared by a new job.
    last_row : ``Signal()``
        It is the last one of its phase.
    entry_done, final : ``Signal()``
        It is the last one of its entry; there is no other one in the job after it.
    moves, go : ``Signal()``
        The walk goes on: the word is taken, or there is none; the word is taken. Driven by whoever
        reads the words; ``moves`` does not depend on ``go``.
    """

    def __init__(self, target, *, taps):
        self._taps, self._address_bits = taps, plan.address_bits(target)
        self.job = Signal(plan.fetch_shape(target), name="p", reset_less=True)
        self.weights_left = Signal()
        self.moves = Signal()
        self.final = Signal()
        self.go = Signal()
        self.tap = Signal(range(max(taps, 2)))
        self.last_row = Signal()
        self.entry_done = Signal()
        # Compared a cycle before: whether this is the last one of its kind.
        self._last_group, self._last_column, self._last_kernel_w, self._last_phase = (
            Signal(reset_less=True, name=f"last_{name}")
            for name in ("group", "column", "kernel_w", "phase"))
        self._groups_left = Signal(8)
        self._columns_left = Signal(11)
        self._kernel_left, self._phase = Signal(8, name="kernel_left"), Signal(8, name="phase")
        # The word, and where its group, its kernel column and its phase begin.
        self._at_group, self._at_column, self._at_phase, self.at = (
            Signal(self._address_bits, name=f"at{i}") for i in range(4))
        # Rows of the kernel beyond the next one of the phase, from the top of the kernel and from
        # this word; negative where there is no next one. Registers, because much logic follows.
        self._rows_left, self._left = (
            Signal(signed(11), name=name, reset_less=True) for name in ("rows_left", "left"))

    def look(self, m):
        """Say what the word is the last one of."""
        m.d.comb += [
            self.last_row.eq(self._left < 0),
            self.entry_done.eq(self.last_row | (self.tap == self._taps - 1) | self.job.wide),
            self.final.eq(~self.weights_left | (
                self.last_row & self._last_phase & self._last_kernel_w & self._last_column
                & self._last_group)),
        ]

    def advance(self, m, new, begin):
        """Go on to the next word, or to the job ``new`` if it begins.

        What is loaded does not depend on what is known late: whether the word is read, and whether
        the next job begins.
        """
        with m.If(self.moves):
            with m.If(self.final):
                self._to_job(m, new, begin)
            with m.Elif(~self.last_row):
                m.d.sync += [
                    self._left.eq(self._left - self.job.stride_h),
                    self.at.eq(self._wrapped(self.at + self.job.tap_stride)),
                ]
            with m.Elif(~self._last_phase):
                self._to_next_phase(m)
            with m.Else():
                self._to_next_kernel_column(m)

    def _to_job(self, m, new, begin):
        """Go to the first word of a job."""
        rows_left = new.kernel_h_1 - new.stride_h
        m.d.sync += [
            self.job.eq(new), self._rows_left.eq(rows_left), self._left.eq(rows_left),
            self.weights_left.eq(begin & new.weights),
            self._groups_left.eq(new.groups_1), self._last_group.eq(new.groups_1 == 0),
            self._columns_left.eq(new.length_1),
            self._last_column.eq(new.cached | (new.length_1 == 0)),
            self._kernel_left.eq(new.kernel_w_1), self._last_kernel_w.eq(new.kernel_w_1 == 0),
            self._phase.eq(0), self._last_phase.eq(new.phases_1 == 0), self.tap.eq(0),
            self._at_group.eq(new.addr), self._at_column.eq(new.addr), self._at_phase.eq(new.addr),
            self.at.eq(new.addr),
        ]

    def _to_next_phase(self, m):
        """Go to the first row of the next phase of a kernel column."""
        phase = self._phase
        onward = self._wrapped(self._at_phase + self.job.tap_h)
        m.d.sync += [
            phase.eq(phase + 1), self._last_phase.eq(phase + 1 == self.job.phases_1),
            self._left.eq(self._rows_left - phase - 1),
            self._at_phase.eq(onward), self.at.eq(onward),
        ]

    def _to_next_kernel_column(self, m):
        """Go to the top of the next kernel column, or of the kernel for another column or group."""
        job = self.job
        m.d.sync += [self._phase.eq(0), self._last_phase.eq(job.phases_1 == 0),
                     self._left.eq(self._rows_left)]
        with m.If(~self._last_kernel_w):
            onward = self._wrapped(self._at_column + job.tap_w)
            m.d.sync += [
                self._kernel_left.eq(self._kernel_left - 1),
                self._last_kernel_w.eq(self._kernel_left == 1),
                self._at_column.eq(onward), self._at_phase.eq(onward), self.at.eq(onward),
            ]
        with m.Else():
            m.d.sync += [self._kernel_left.eq(job.kernel_w_1),
                         self._last_kernel_w.eq(job.kernel_w_1 == 0)]
            onward = Signal(self._address_bits)
            m.d.sync += [self._at_column.eq(onward), self._at_phase.eq(onward),
                         self.at.eq(onward)]
            with m.If(~self._last_column):
                m.d.comb += onward.eq(self._at_group)
                m.d.sync += [self._columns_left.eq(self._columns_left - 1),
                             self._last_column.eq(self._columns_left == 1)]
            with m.Else():
                m.d.comb += onward.eq(self._at_group + job.group_step)
                m.d.sync += [
                    self._columns_left.eq(job.length_1),
                    self._last_column.eq(job.cached | (job.length_1 == 0)),
                    self._groups_left.eq(self._groups_left - 1),
                    self._last_group.eq(self._groups_left == 1),
                    self._at_group.eq(onward),
                ]

    def _wrapped(self, address):
        """Return an address modulo the words of a bank."""
        return address[:self._address_bits]
