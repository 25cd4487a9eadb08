# SPDX-License-Identifier: Apache-2.0
"""The issue order of the stripes of a cascade: list scheduling with the cost model's cycles.

Of all stages whose next stripe has its inputs and free words for its results, the one that could
start first is next; of equals, the one furthest down the cascade. A row may be overwritten once
every reader has been put before it, so the order is right whatever the engines really take.
"""

import bisect
import dataclasses
from collections.abc import Sequence

from opendpu.compiler.layers.cost import LATENCY
from opendpu.compiler.planner.cascade.stage import Buffer, Stage, Stripe
from opendpu_arch.isa import Engine

NEVER = 1 << 60
UNKNOWN = -1
"""Start of a stage that has to be found again."""
SAMPLE = 192
"""Stripes of the longest stage after which an estimate stops: by then a cascade repeats itself."""
TALL = 2 * SAMPLE
"""Stripes up to which an estimate is the whole order, which those of all images are."""


@dataclasses.dataclass(frozen=True)
class IssueOrder:
    """(stage, stripe) by number in the order of emission, and the cycles they are expected to take.

    ``blocked`` is the buffer that is too small for any order, if that is so. Of an estimate that is
    not ``whole``, there are the first stripes.
    """

    stripes: tuple[tuple[int, int], ...]
    cycles: int
    blocked: int | None = None
    whole: bool = True


def list_schedule(
    stages: Sequence[Stage], buffers: Sequence[Buffer], capacities: Sequence[int]
) -> IssueOrder:
    """Return the order of a cascade whose buffers hold ``capacities`` address groups."""
    return _ListScheduler(stages, buffers, capacities).order()


def estimate(
    stages: Sequence[Stage], buffers: Sequence[Buffer], capacities: Sequence[int]
) -> IssueOrder:
    """Return the order as :func:`list_schedule`, of tall feature maps as far as tells its cycles.

    Sequences of thousands of positions have so many stripes that choosing among hundreds of
    cascades would take minutes.
    """
    return _ListScheduler(stages, buffers, capacities).order(SAMPLE)


class _ListScheduler:
    """One simulation of the engines.

    When a stage could start, but for its engine, is computed once and kept until a stage is put
    that has a say in it.
    """

    def __init__(
        self, stages: Sequence[Stage], buffers: Sequence[Buffer], capacities: Sequence[int]
    ) -> None:
        self.stages, self.buffers = stages, buffers
        self.capacity = [
            NEVER if b.resident else capacity * b.group_rows
            for b, capacity in zip(buffers, capacities, strict=True)
        ]
        makers = {s.output for s in stages}
        self.made = [n in makers for n in range(len(buffers))]
        self.have = [0 if self.made[n] or not b.resident else b.height
                     for n, b in enumerate(buffers)]  # fmt: skip
        self.ready: list[list[int]] = [[0] * b.height for b in buffers]
        self.readers: list[list[tuple[int, list[int]]]] = [[] for _ in buffers]
        for number, stage in enumerate(stages):
            for buffer, lows in stage.lows.items():
                self.readers[buffer].append((number, [*lows, NEVER]))
        self.next = [0] * len(stages)
        self.done: list[list[int]] = [[] for _ in stages]
        self.saved: list[tuple[list[int], list[int]]] = [([], []) for _ in buffers]
        self.free = [0] * len(Engine)
        self.blocked: int | None = None
        self._starts: list[int] = [UNKNOWN] * len(stages)
        self._blocked: list[int | None] = [None] * len(stages)
        self._loading = [False] * len(stages)
        self._touched = [self._touches(stage) for stage in stages]

    def _touches(self, stage: Stage) -> list[int]:
        """Return the stages that can start earlier or later when this one is put."""
        read = stage.lows.keys()
        return [
            number
            for number, other in enumerate(self.stages)
            if other is stage
            or stage.output in other.lows
            or other.output in read
            or other.in_place in read
            or any(not self.made[buffer] for buffer in other.lows.keys() & read)
        ]

    def order(self, sample: int | None = None) -> IssueOrder:
        """Run to the end, or until nothing can go on, or ``sample`` stripes tell the rest."""
        issued: list[tuple[int, int]] = []
        longest = max(range(len(self.stages)), key=lambda n: len(self.stages[n].stripes))
        stop = NEVER if sample is None or len(self.stages[longest].stripes) <= TALL else sample
        half = 0
        free, starts = self.free, self._starts
        left = [
            (number, int(stage.engine))
            for number, stage in reversed(list(enumerate(self.stages)))
            if stage.stripes
        ]
        while left:
            best, first = -1, NEVER
            for number, engine in left:
                start = starts[number]
                if start == UNKNOWN:
                    start = starts[number] = self._start(number)
                start = max(start, free[engine])
                if start < first:
                    best, first = number, start
            if best < 0:
                blocked = (self._blocked[number] for number, _ in left)
                return IssueOrder(
                    tuple(issued), NEVER, next((b for b in blocked if b is not None), -1)
                )
            issued.append((best, self.next[best]))
            self._take(best, first)
            if best == longest and self.next[best] >= stop // 2:
                half = half or max(free)
                if self.next[best] >= stop:
                    return self._extrapolated(issued, longest, half)
            if self.next[best] == len(self.stages[best].stripes):
                left = [one for one in left if one[0] != best]
        return IssueOrder(tuple(issued), max(free))

    def _extrapolated(
        self, issued: Sequence[tuple[int, int]], longest: int, half: int
    ) -> IssueOrder:
        """Return an order whose rest goes on as the second half of what was issued did."""
        put = self.next[longest]
        left, now = len(self.stages[longest].stripes) - put, max(self.free)
        cycles = now + (now - half) * left // (put - put // 2)
        return IssueOrder(tuple(issued), cycles, whole=False)

    def _freed_at(self, buffer: int, limit: int) -> int | None:
        """Return when the rows below ``limit`` of a buffer are no longer needed, if that is known.

        A reader must have been put before; the buffer is noted as too small otherwise.
        """
        if limit <= 0:
            return 0
        time = 0
        for reader, lows in self.readers[buffer]:
            if lows[self.next[reader]] < limit:
                self.blocked = buffer
                return None
            last = bisect.bisect_left(lows, limit) - 1
            if last >= 0:
                time = max(time, self.done[reader][last])
        ends, times = self.saved[buffer]
        if times:
            time = max(time, times[min(bisect.bisect_left(ends, limit), len(times) - 1)])
        return time

    def _start(self, number: int) -> int:
        """Return the cycle in which the next stripe of a stage can start, but for its engine.

        ``NEVER`` if it cannot be put next.
        """
        self.blocked = None
        self._loading[number] = False
        start = self._start_or_none(number)
        self._blocked[number] = self.blocked
        return NEVER if start is None else start

    def _start_or_none(self, number: int) -> int | None:
        stage = self.stages[number]
        stripe = stage.stripes[self.next[number]]
        time = 0
        for need in stripe.needs:
            number_in, high = need.buffer, need.high
            missing = high - self.have[number_in]
            if missing <= 0:
                time = max(time, self.ready[number_in][high - 1])
            elif self.made[number_in]:
                return None
            else:
                self._loading[number] = True
                freed = self._freed_at(number_in, high - self.capacity[number_in])
                if freed is None:
                    return None
                load = missing * self.buffers[number_in].load
                time = max(time, max(self.free[Engine.LOAD], freed) + load + LATENCY)
        end = stripe.row + stripe.rows
        freed = self._freed_at(stage.output, end - self.capacity[stage.output])
        if freed is None:
            return None
        if stage.in_place is not None and not self._unread(stage.in_place, number, end):
            return None
        return max(time, freed)

    def _unread(self, buffer: int, but: int, limit: int) -> bool:
        """Tell whether no stage but one needs rows below ``limit`` any more."""
        return all(
            reader == but or lows[self.next[reader]] >= limit
            for reader, lows in self.readers[buffer]
        )

    def _take(self, number: int, start: int) -> None:
        """Put the next stripe of a stage."""
        stage = self.stages[number]
        stripe = stage.stripes[self.next[number]]
        if self._loading[number]:
            for need in stripe.needs:
                self._load(need.buffer, need.high)
            for other, loading in enumerate(self._loading):
                if loading:
                    self._starts[other] = UNKNOWN
        done = self._compute(stage, stripe, start)
        self.done[number].append(done)
        self.next[number] += 1
        end = stripe.row + stripe.rows
        self.have[stage.output] = end
        self.ready[stage.output][stripe.row : end] = [done] * stripe.rows
        cost = self.buffers[stage.output].save
        if cost:
            self.free[Engine.SAVE] = max(self.free[Engine.SAVE], done) + stripe.rows * cost
            ends, times = self.saved[stage.output]
            ends.append(end)
            times.append(self.free[Engine.SAVE])
        for other in self._touched[number]:
            self._starts[other] = UNKNOWN

    def _load(self, number: int, high: int) -> None:
        """Load the rows of a buffer below ``high`` that are not there yet."""
        if self.made[number] or self.have[number] >= high:
            return
        freed = self._freed_at(number, high - self.capacity[number])
        begin = max(self.free[Engine.LOAD], freed or 0)
        for row in range(self.have[number], high):
            begin += self.buffers[number].load
            self.ready[number][row] = begin + LATENCY
        self.free[Engine.LOAD] = begin
        self.have[number] = high

    def _compute(self, stage: Stage, stripe: Stripe, start: int) -> int:
        """Occupy the engines; return when the results are there."""
        end = self.free[stage.engine] = start + stripe.cycles
        if stripe.beside:
            array = max(self.free[Engine.CONV], start) + stripe.beside
            self.free[Engine.CONV] = array
            return max(end, array)
        if not stripe.after:
            return end
        begin = max(self.free[Engine.MISC], start + stripe.cycles // stripe.passes)
        end = max(begin + stripe.after, end + stripe.after // stripe.passes)
        self.free[Engine.MISC] = end
        return end
