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
from opendpu.compiler.planner.cascade.stage import NEVER, Buffer, Stage, Stripe
from opendpu_arch.isa import Engine

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

    When a stage could start, but for its engine, is found once for each of its stripes: what it
    has waited for stays done. A stage that cannot start is looked at again when another is put for
    which it waits; one that loads, whenever others load.
    """

    def __init__(
        self, stages: Sequence[Stage], buffers: Sequence[Buffer], capacities: Sequence[int]
    ) -> None:
        self.stages, self.buffers = stages, buffers
        self.capacity = [
            NEVER if b.resident else capacity * b.group_rows
            for b, capacity in zip(buffers, capacities, strict=True)
        ]
        self.maker: list[int | None] = [None] * len(buffers)
        self.readers: list[list[tuple[int, list[int]]]] = [[] for _ in buffers]
        for number, stage in enumerate(stages):
            self.maker[stage.output] = number
            for buffer, lows in stage.lows.items():
                self.readers[buffer].append((number, lows))
        self.have = [
            b.height if b.resident and maker is None else 0
            for b, maker in zip(buffers, self.maker, strict=True)
        ]
        self.ready: list[list[int]] = [[0] * b.height for b in buffers]
        self.begun: list[list[int]] = [[0] * b.height for b in buffers]
        """When the first channels of a row are there."""
        self.next = [0] * len(stages)
        self.done: list[list[int]] = [[] for _ in stages]
        self.saved: list[tuple[list[int], list[int]]] = [([], []) for _ in buffers]
        self.free = [0] * len(Engine)
        self._starts: list[int] = [UNKNOWN] * len(stages)
        self._blocked: list[int | None] = [None] * len(stages)
        """The buffers without room for which stages cannot start."""
        self._waiting: list[list[int]] = [[] for _ in stages]
        """The stages that wait for each to be put."""
        self._loading = [False] * len(stages)

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
                if start < free[engine]:
                    start = free[engine]
                if start < first:
                    best, first = number, start
            if best < 0:
                blocked = (self._blocked[number] for number, _ in left)
                return IssueOrder(
                    tuple(issued), NEVER, next((b for b in blocked if b is not None), -1)
                )
            best, first = self._before_epilogue(best, first, left)
            issued.append((best, self.next[best]))
            self._take(best, first)
            if best == longest and self.next[best] >= stop // 2:
                half = half or max(free)
                if self.next[best] >= stop:
                    return self._extrapolated(issued, longest, half)
            if self.next[best] == len(self.stages[best].stripes):
                left = [one for one in left if one[0] != best]
        return IssueOrder(tuple(issued), max(free))

    def _before_epilogue(
        self, best: int, first: int, left: Sequence[tuple[int, int]]
    ) -> tuple[int, int]:
        """Return the stage to put next and its start, of which ``best`` can start first.

        The misc engine waits with an epilogue for its convolution, and with all that is put behind
        it. What it can do before that is put first.
        """
        stripe = self.stages[best].stripes[self.next[best]]
        if not stripe.after:
            return best, first
        begin = first + stripe.cycles // stripe.passes
        for number, engine in left:
            if engine != Engine.MISC:
                continue
            start = max(self._starts[number], self.free[engine])
            other = self.stages[number]
            if start + other.stripes[self.next[number]].cycles <= begin:
                return number, start
        return best, first

    def _extrapolated(
        self, issued: Sequence[tuple[int, int]], longest: int, half: int
    ) -> IssueOrder:
        """Return an order whose rest goes on as the second half of what was issued did."""
        put = self.next[longest]
        left, now = len(self.stages[longest].stripes) - put, max(self.free)
        cycles = now + (now - half) * left // (put - put // 2)
        return IssueOrder(tuple(issued), cycles, whole=False)

    def _needs(self, buffer: int, limit: int, but: int | None = None) -> int | None:
        """Return a stage that still needs rows below ``limit`` of a buffer, if one does."""
        for reader, lows in self.readers[buffer]:
            if lows[self.next[reader]] < limit and reader != but:
                return reader
        return None

    def _freed_at(self, buffer: int, limit: int) -> int:
        """Return when the rows below ``limit`` of a buffer, which no stage needs, are unused."""
        time = 0
        for reader, lows in self.readers[buffer]:
            last = bisect.bisect_left(lows, limit) - 1
            if last >= 0 and self.done[reader][last] > time:
                time = self.done[reader][last]
        ends, times = self.saved[buffer]
        if times:
            time = max(time, times[min(bisect.bisect_left(ends, limit), len(times) - 1)])
        return time

    def _start(self, number: int) -> int:
        """Return the cycle in which the next stripe of a stage can start, but for its engine.

        ``NEVER`` if it cannot be put next.
        """
        stage = self.stages[number]
        stripe = stage.stripes[self.next[number]]
        time, loading = 0, False
        for need in stripe.needs:
            buffer, high = need.buffer, need.high
            missing, maker = high - self.have[buffer], self.maker[buffer]
            if missing <= 0:
                there = self.ready if stripe.passes == 1 else self.begun
                found = there[buffer][high - 1]
            elif maker is not None:
                return self._wait(number, maker, None)
            else:
                found, limit, loading = self.free[Engine.LOAD], high - self.capacity[buffer], True
                if limit > 0:
                    reader = self._needs(buffer, limit)
                    if reader is not None:
                        return self._wait(number, reader, buffer)
                    found = max(found, self._freed_at(buffer, limit))
                found += missing * self.buffers[buffer].load + LATENCY
            if found > time:
                time = found
        end = stripe.row + stripe.rows
        limit = end - self.capacity[stage.output]
        if limit > 0:
            reader = self._needs(stage.output, limit)
            if reader is not None:
                return self._wait(number, reader, stage.output)
            time = max(time, self._freed_at(stage.output, limit))
        if stage.in_place is not None:
            reader = self._needs(stage.in_place, end, number)
            if reader is not None:
                return self._wait(number, reader, None)
        self._loading[number], self._blocked[number] = loading, None
        return time

    def _wait(self, number: int, other: int, blocked: int | None) -> int:
        """Let a stage wait until another is put, for room in buffer ``blocked`` if given."""
        self._waiting[other].append(number)
        self._loading[number], self._blocked[number] = False, blocked
        return NEVER

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
        begun = start + stripe.cycles // stage.pieces if stage.pieces > 1 else done
        self.done[number].append(done)
        self.next[number] += 1
        end = stripe.row + stripe.rows
        self.have[stage.output] = end
        self.ready[stage.output][stripe.row : end] = [done] * stripe.rows
        self.begun[stage.output][stripe.row : end] = [begun] * stripe.rows
        cost = self.buffers[stage.output].save
        if cost:
            self.free[Engine.SAVE] = max(self.free[Engine.SAVE], done) + stripe.rows * cost
            ends, times = self.saved[stage.output]
            ends.append(end)
            times.append(self.free[Engine.SAVE])
        self._starts[number] = UNKNOWN
        for other in self._waiting[number]:
            self._starts[other] = UNKNOWN
        self._waiting[number].clear()

    def _load(self, number: int, high: int) -> None:
        """Load the rows of a buffer below ``high`` that are not there yet."""
        if self.maker[number] is not None or self.have[number] >= high:
            return
        limit = high - self.capacity[number]
        begin = max(self.free[Engine.LOAD], self._freed_at(number, limit) if limit > 0 else 0)
        for row in range(self.have[number], high):
            begin += self.buffers[number].load
            self.ready[number][row] = self.begun[number][row] = begin + LATENCY
        self.free[Engine.LOAD] = begin
        self.have[number] = high

    def _compute(self, stage: Stage, stripe: Stripe, start: int) -> int:
        """Occupy the engines; return when the results are there."""
        end = start + stripe.cycles
        if stripe.passes > 1 and not stripe.after:  # the last pass comes behind all of the input
            ready = (self.ready[need.buffer][need.high - 1] for need in stripe.needs)
            end = max(end, max(ready, default=0) + stripe.cycles // stripe.passes)
        self.free[stage.engine] = end
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
